package datastore

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
)

// TestQuotaOfEtcdIsRelievedByDeletions: a database that has used up its quota refuses writes with 507, but for deletions and
// for the writes that some of them begin with. These, the compaction and the defragmentation that follow make room, and the
// same process takes writes again.
func TestQuotaOfEtcdIsRelievedByDeletions(t *testing.T) {
	const quota = 24 << 20
	o := etcdOptions(t.TempDir())
	o.Quota = quota
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	c := s.Client()
	t.Cleanup(func() { _ = c.Close() }) // it has no connection
	large := strings.Repeat("large", 32<<10/5)
	revisions := map[string]int64{}
	for i := 0; ; i++ {
		if code, text := s.Refusal(); code != 0 {
			if code != http.StatusInsufficientStorage || !strings.Contains(text, "is full, or its quota is used up") {
				t.Errorf("the API server answers %d %q", code, text)
			}
			break
		}
		if i*len(large) > quota+etcdSpare {
			t.Fatalf("%d values of %d bytes fit into a quota of %d", i, len(large), quota)
		}
		key := fmt.Sprintf("/registry/x/%d", i)
		answer, err := put(t.Context(), c, key, large, 0)
		if err != nil {
			t.Fatalf("a write that nobody has refused: %v", err)
		}
		revisions[key] = answer.Header.Revision
	}
	// An object that waits for something is marked before it goes.
	marked, err := put(t.Context(), c, "/registry/x/0", large, revisions["/registry/x/0"])
	if err != nil {
		t.Fatalf("the write that a deletion begins with: %v", err)
	}
	revisions["/registry/x/0"] = marked.Header.Revision
	if there := keysOf(t, c); len(there) != len(revisions) {
		t.Errorf("%d keys were acknowledged, %d are there", len(revisions), len(there))
	}

	for key, revision := range revisions {
		if len(revisions)*len(large) < quota/2 {
			break
		}
		if _, err := remove(t.Context(), c, key, revision); err != nil {
			t.Fatalf("deleting with a quota that is used up: %v", err)
		}
		delete(revisions, key)
	}
	began := time.Now()
	eventually(t, func() error {
		if code, text := s.Refusal(); code != 0 {
			return errors.New(text)
		}
		return nil
	})
	t.Logf("writes are taken %s after the deletions", time.Since(began).Round(time.Millisecond))
	if _, err := put(t.Context(), c, "/registry/x/late", large, 0); err != nil {
		t.Errorf("a write once there is room: %v", err)
	}
	there := keysOf(t, c)
	delete(there, "/registry/x/late")
	if len(there) != len(revisions) {
		t.Errorf("%d keys were to stay, %d are there", len(revisions), len(there))
	}
	for key, revision := range revisions {
		if there[key] != revision {
			t.Errorf("%s is at revision %d, want %d", key, there[key], revision)
		}
	}
}

// TestAlarmOfEtcdIsExplainedAndTakenBack: with its own alarm etcd takes nothing that puts a key. The API server says why, and the
// alarm goes by itself once there is room.
func TestAlarmOfEtcdIsExplainedAndTakenBack(t *testing.T) {
	s, c := openEtcd(t, t.TempDir())
	member := s.engine.(*etcd).member
	_, err := member.Alarm(t.Context(), &etcdserverpb.AlarmRequest{
		Action: etcdserverpb.AlarmRequest_ACTIVATE, MemberID: uint64(member.MemberID()), Alarm: etcdserverpb.AlarmType_NOSPACE,
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = put(t.Context(), c, "/registry/x/refused", "x", 0)
	if err == nil {
		t.Fatal("etcd takes writes in spite of its alarm")
	}
	code, text := Explain("Internal error occurred: " + err.Error())
	if code != http.StatusInsufficientStorage || !strings.Contains(text, "the quota of etcd is used up") {
		t.Errorf("%v is explained as %d %q", err, code, text)
	}
	eventually(t, func() error {
		_, err := put(t.Context(), c, "/registry/x/taken", "x", 0)
		return err
	})
}
