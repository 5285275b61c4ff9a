package datastore

import (
	"context"
	"testing"

	"github.com/k3s-io/kine/pkg/server"
)

// leased answers a deletion.
type leased struct {
	server.Backend
	kv      *server.KeyValue
	deleted bool
}

func (l leased) Delete(context.Context, string, int64) (int64, *server.KeyValue, bool, error) {
	return 10, l.kv, l.deleted, nil
}

// TestKeyWithANewLeaseIsLookedAtAgain: kine forgets a key whose deletion returns no error.
func TestKeyWithANewLeaseIsLookedAtAgain(t *testing.T) {
	for what, c := range map[string]struct {
		backend leased
		again   bool
	}{
		"deleted":                       {leased{kv: &server.KeyValue{Lease: 5}, deleted: true}, false},
		"deleted by somebody else":      {leased{}, false},
		"written again with a lease":    {leased{kv: &server.KeyValue{Lease: 5}}, true},
		"written again without a lease": {leased{kv: &server.KeyValue{}}, false},
	} {
		if _, _, _, err := (expiring{Backend: c.backend}).Delete(t.Context(), "/key", 5); (err != nil) != c.again {
			t.Errorf("%s: %v", what, err)
		}
	}
}
