//go:build releasetest

package clients

import "testing"

// The page starts Kubernetes' scheduler too.
func TestCommandsOfThePageAboutKwok(t *testing.T) {
	t.Parallel()
	walk(t, kwokPage)
}
