package datastore

import (
	"bytes"
	"fmt"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestLargeObjectsAreTaken: the API server takes objects of a megabyte and a half, and lists many at once.
func TestLargeObjectsAreTaken(t *testing.T) {
	c := open(t)
	large := bytes.Repeat([]byte("x"), 3<<19)
	for i := range 3 {
		key := fmt.Sprintf("/registry/large/%d", i)
		answer, err := c.Txn(t.Context()).If(clientv3.Compare(clientv3.ModRevision(key), "=", 0)).Then(clientv3.OpPut(key, string(large))).Commit()
		if err != nil || !answer.Succeeded {
			t.Fatal(answer, err)
		}
	}
	all, err := c.Get(t.Context(), "/registry/large/", clientv3.WithPrefix())
	if err != nil || len(all.Kvs) != 3 || !bytes.Equal(all.Kvs[2].Value, large) {
		t.Errorf("%d are read back (%v)", len(all.Kvs), err)
	}
}
