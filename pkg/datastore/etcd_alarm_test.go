package datastore

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/reap-dev/reap/tests/databases"
)

// TestEtcdElsewhereWhoseQuotaIsUsedUp: a server starts on it and says what to do; that done in this order, it takes writes again.
func TestEtcdElsewhereWhoseQuotaIsUsedUp(t *testing.T) {
	if testing.Short() {
		t.Skip("needs etcd")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, endpoint := databases.EtcdWithQuota(t, 4<<20)
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Context: ctx})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }() // the test is over
	large := strings.Repeat("x", 1<<20)
	var last error
	for range 10 {
		if _, last = c.Put(ctx, "/key", large); last != nil {
			break
		}
	}
	if !errors.Is(last, rpctypes.ErrNoSpace) {
		t.Fatalf("writing until the quota is used up: %v", last)
	}

	s, err := Start(ctx, Options{Dir: t.TempDir(), Endpoint: endpoint, Metrics: prometheus.NewRegistry(), StartTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	isFull := func() float64 { return testutil.ToFloat64(s.writable.gauge.WithLabelValues("full")) }
	if s.Trouble() != quotaText || isFull() != 1 {
		t.Errorf("after the start the store says %q, and the series %v", s.Trouble(), isFull())
	}
	if code, text := s.Explain(last.Error()); code != http.StatusInsufficientStorage || text != quotaText {
		t.Errorf("a write is answered with %d, %q", code, text)
	}

	// As the sentence says.
	var then int
	for _, step := range []string{"etcdctl compact", "etcdctl defrag", "etcdctl alarm disarm"} {
		at := strings.Index(quotaText, step)
		if at < then {
			t.Errorf("%s is not named, or not in its order", step)
		}
		then = at
	}
	got, err := c.Get(ctx, "/key")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Compact(ctx, got.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Defragment(ctx, endpoint); err != nil {
		t.Fatal(err)
	}
	s.lookForAlarm(ctx, c)
	if s.Trouble() == "" {
		t.Error("the store takes writes before the alarm is disarmed")
	}
	if _, err := c.AlarmDisarm(ctx, &clientv3.AlarmMember{}); err != nil {
		t.Fatal(err)
	}
	s.lookForAlarm(ctx, c)
	if s.Trouble() != "" || isFull() != 0 {
		t.Errorf("after the steps the store says %q, and the series %v", s.Trouble(), isFull())
	}
	if _, err := c.Put(ctx, "/key", "small"); err != nil {
		t.Errorf("after the steps a write fails: %v", err)
	}
}

// TestEtcdElsewhereThatIsAway is not named to clients; what webhooks and services of the user's answer stays as it is.
func TestEtcdElsewhereThatIsAway(t *testing.T) {
	s := &Store{writable: newWritable(prometheus.NewRegistry())}
	for message, want := range map[string]int{
		`rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing: dial tcp 10.0.0.7:2379: connect: connection refused"`: http.StatusServiceUnavailable,
		"etcdserver: request timed out": http.StatusServiceUnavailable,
		"etcdserver: leader changed":    http.StatusServiceUnavailable,
		`failed calling webhook "x": Post "https://10.0.0.8/": context deadline exceeded`:                                0,
		`failed to encrypt DEK: rpc error: code = Unavailable desc = connection error: desc = "dial unix /run/kms.sock"`: 0,
		"etcdserver: mvcc: required revision has been compacted":                                                         0,
	} {
		if code, text := s.Explain(message); code != want || strings.Contains(text, "10.0.0.") {
			t.Errorf("%s: answered with %d, %q", message, code, text)
		}
	}
}
