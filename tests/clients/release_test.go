//go:build releasetest

package clients

import "testing"

// built are the programs that the tests here need: those with the build tag need Kubernetes' own besides.
var built = []string{kwokPackage, helmPackage, schedulerPackage, managerPackage}

// many is how many pods one owner has where it has many.
const many = 2000

// own starts a cluster for a test that does what others would feel.
func own(t *testing.T) *cluster {
	t.Helper()
	c, err := newCluster(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.stop(); err != nil {
			t.Error(err)
		}
	})
	c.explain(t)
	return c
}
