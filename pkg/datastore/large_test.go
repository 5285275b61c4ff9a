package datastore

import (
	"fmt"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestLargeObjectsAreTaken: the API server takes objects of a megabyte and a half, and lists many at once.
func TestLargeObjectsAreTaken(t *testing.T) {
	store, inProcess := openIn(t, t.TempDir(), 0)
	testLargeObjects(t, store, inProcess)
}

func TestLargeObjectsAreTakenOnEtcd(t *testing.T) {
	store, inProcess := openEtcd(t, t.TempDir())
	testLargeObjects(t, store, inProcess)
}

func testLargeObjects(t *testing.T, store *Store, inProcess *clientv3.Client) {
	t.Helper()
	dialed, err := clientv3.New(clientv3.Config{Endpoints: store.Endpoints, Context: t.Context()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dialed.Close() }) // all its calls have ended
	large := strings.Repeat("x", 3<<19)
	for name, c := range map[string]*clientv3.Client{"in process": inProcess, "through the socket": dialed} {
		prefix := "/registry/large " + name + "/"
		for i := range 3 {
			if answer, err := put(t.Context(), c, fmt.Sprint(prefix, i), large, 0); err != nil || !answer.Succeeded {
				t.Fatal(name, answer, err)
			}
		}
		all, err := c.Get(t.Context(), prefix, clientv3.WithPrefix())
		if err != nil || len(all.Kvs) != 3 || string(all.Kvs[2].Value) != large {
			t.Errorf("%s: %d are read back (%v)", name, len(all.Kvs), err)
		}
		if _, err := put(t.Context(), c, prefix+"too-large", strings.Repeat("x", maxRequest), 0); err == nil {
			t.Errorf("%s: an object of 2 MiB was taken", name)
		}
	}
}
