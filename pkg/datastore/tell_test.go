package datastore

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/k3s-io/kine/pkg/server"
	"github.com/sirupsen/logrus"
	logrustest "github.com/sirupsen/logrus/hooks/test"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
)

// refusing is a backend that writes nothing.
type refusing struct {
	server.Backend
	err error
}

func (r refusing) Create(context.Context, string, []byte, int64) (int64, error) { return 0, r.err }

// TestFailedWriteIsToldWithoutItsValue: of what is logged, that with the value is known to IsWithValue, and the other record has the key.
func TestFailedWriteIsToldWithoutItsValue(t *testing.T) {
	const key, value = "/registry/secrets/ns/a", "correct-horse-battery-staple"
	create := &etcdserverpb.TxnRequest{
		Compare: []*etcdserverpb.Compare{{
			Key: []byte(key), Target: etcdserverpb.Compare_MOD, Result: etcdserverpb.Compare_EQUAL,
			TargetUnion: &etcdserverpb.Compare_ModRevision{},
		}},
		Success: []*etcdserverpb.RequestOp{{Request: &etcdserverpb.RequestOp_RequestPut{
			RequestPut: &etcdserverpb.PutRequest{Key: []byte(key), Value: []byte(value)},
		}}},
	}
	for _, tc := range []struct {
		err  error
		told bool
	}{{errors.New("disk full"), true}, {context.Canceled, false}} {
		hook := logrustest.NewGlobal()
		defer logrus.StandardLogger().ReplaceHooks(logrus.LevelHooks{})
		api := newEtcdAPI(refusing{err: tc.err})
		if _, err := api.Txn(t.Context(), create); !errors.Is(err, tc.err) {
			t.Errorf("the answer is %v, want %v", err, tc.err)
		}
		told := false
		for _, e := range hook.AllEntries() {
			text, err := e.String()
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(text, value) && !IsWithValue(e.Message) {
				t.Errorf("the value is told: %s", text)
			}
			if strings.Contains(text, "the datastore cannot write") {
				told = strings.Contains(text, key) && strings.Contains(text, "disk full")
			}
		}
		if told != tc.told {
			t.Errorf("%v: the key is told: %v", tc.err, told)
		}
	}
}
