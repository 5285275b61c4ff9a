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
		if _, _, _, err := (expiring{Backend: c.backend}).Delete(t.Context(), "/registry/events/default/e", 5); (err != nil) != c.again {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// forbidden fails the test that deletes.
type forbidden struct {
	server.Backend
	t *testing.T
}

func (f forbidden) Delete(_ context.Context, key string, _ int64) (int64, *server.KeyValue, bool, error) {
	f.t.Errorf("%s is deleted", key)
	return 0, nil, true, nil
}

// TestOnlyEventsExpire: one bit of a row gives any other object a lease of a second, and its dependents would follow it.
func TestOnlyEventsExpire(t *testing.T) {
	for _, key := range []string{"/registry/configmaps/default/owner", "/registry/namespaces/default", "/registry/eventsource/x"} {
		if _, _, _, err := (expiring{Backend: forbidden{t: t}}).Delete(t.Context(), key, 5); err != nil {
			t.Errorf("%s: %v: kine would try again", key, err)
		}
	}
}
