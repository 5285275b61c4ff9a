package watch

import (
	"github.com/k3s-io/kine/pkg/server"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// The API server keeps under a key how far it has compacted. kine has a key of its own by that name, and stores the API server's under
// another, with the version in the value.
const (
	compactRevision       = "compact_rev_key"
	compactRevisionInKine = "compact_rev_key_apiserver"
)

// toEvent returns a change as etcd tells it.
func toEvent(e *server.Event) *mvccpb.Event {
	event := &mvccpb.Event{Type: mvccpb.PUT, Kv: toKeyValue(e.KV)}
	if e.Delete {
		event.Type = mvccpb.DELETE
	}
	if !e.Create {
		event.PrevKv = toKeyValue(e.PrevKV)
	}
	return event
}

func toKeyValue(kv *server.KeyValue) *mvccpb.KeyValue {
	if kv == nil {
		return nil
	}
	if kv.Key == compactRevisionInKine {
		version, value := server.DecodeVersion(kv.Value)
		return &mvccpb.KeyValue{
			Key: []byte(compactRevision), Value: value, Version: version, CreateRevision: kv.CreateRevision, ModRevision: kv.ModRevision,
		}
	}
	return &mvccpb.KeyValue{
		Key:            []byte(kv.Key),
		Value:          kv.Value,
		Version:        kv.Version,
		CreateRevision: kv.CreateRevision,
		ModRevision:    kv.ModRevision,
		Lease:          kv.Lease,
	}
}
