package datastore

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
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
	if left := s.Left(); left <= 0.5 {
		t.Errorf("%.2f is left of what deletions may take beyond the quota, of which nothing is used", left)
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
		// A machine that is busy with other things may take longer over one, the defragmentation between them included, than etcd waits.
		// It is asked again then, as clients do; if the first has come through after all, the second finds nothing and changes nothing.
		for tries := 1; ; tries++ {
			_, err := remove(t.Context(), c, key, revision)
			if err == nil {
				break
			}
			if !errors.Is(err, rpctypes.ErrTimeout) || tries == 5 {
				t.Fatalf("deleting with a quota that is used up: %v", err)
			}
			t.Log(err)
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

// TestEtcdWithAnAlarmIsStarted: etcd keeps its alarm, and takes no writes until that is lifted, which reap does once it runs.
func TestEtcdWithAnAlarmIsStarted(t *testing.T) {
	dir := t.TempDir()
	s, err := Start(t.Context(), etcdOptions(dir))
	if err != nil {
		t.Fatal(err)
	}
	member := s.engine.(*etcd).member
	_, err = member.Alarm(t.Context(), &etcdserverpb.AlarmRequest{
		Action: etcdserverpb.AlarmRequest_ACTIVATE, MemberID: uint64(member.MemberID()), Alarm: etcdserverpb.AlarmType_NOSPACE,
	})
	s.Stop()
	if err != nil {
		t.Fatal(err)
	}
	s, c := openEtcd(t, dir)
	if code, text := s.Refusal(); code != http.StatusInsufficientStorage || !strings.Contains(text, "quota") {
		t.Errorf("while it has the alarm, the API server answers %d %q", code, text)
	}
	eventually(t, func() error {
		if code, text := s.Refusal(); code != 0 {
			return errors.New(text)
		}
		return nil
	})
	if _, err := put(t.Context(), c, "/registry/x/taken", "x", 0); err != nil {
		t.Errorf("a write once it is relieved: %v", err)
	}
}

// TestEtcdOverItsQuotaIsStarted: etcd itself takes nothing, and is relieved by what follows a start.
func TestEtcdOverItsQuotaIsStarted(t *testing.T) {
	const quota = 16 << 20
	dir := t.TempDir()
	s, err := Start(t.Context(), etcdOptions(dir))
	if err != nil {
		t.Fatal(err)
	}
	s.Stop()
	leaveFreePages(t, dir, quota+etcdSpare+16<<20)
	o := etcdOptions(dir)
	o.Quota = quota
	s, err = Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	if code, text := s.Refusal(); code != http.StatusInsufficientStorage || !strings.Contains(text, "etcd's quota of 16 MiB is used up") {
		t.Errorf("the API server answers %d %q", code, text)
	}
	eventually(t, func() error {
		if code, text := s.Refusal(); code != 0 {
			return errors.New(text)
		}
		return nil
	})
	c := s.Client()
	t.Cleanup(func() { _ = c.Close() }) // it has no connection
	if _, err := put(t.Context(), c, "/registry/x/taken", "x", 0); err != nil {
		t.Errorf("a write once there is room: %v", err)
	}
}

// leaveFreePages makes the database of an etcd that does not run larger by so many bytes.
func leaveFreePages(t *testing.T, dir string, bytes int64) {
	t.Helper()
	const piece = 16 << 20
	db, err := bbolt.Open(etcdDatabase(dir), 0o600, &bbolt.Options{Timeout: time.Second, NoFreelistSync: true, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	name, content := []byte("ballast"), make([]byte, piece)
	for i := int64(0); i*piece < bytes && err == nil; i++ {
		err = db.Update(func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists(name)
			if err != nil {
				return err
			}
			return b.Put(fmt.Append(nil, i), content)
		})
	}
	if err == nil {
		err = db.Update(func(tx *bbolt.Tx) error { return tx.DeleteBucket(name) })
	}
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestStoreThatIsTooLargeForEtcdIsAnError: it would take no more objects once it is in its place.
func TestStoreThatIsTooLargeForEtcdIsAnError(t *testing.T) {
	const quota = 64 << 20
	for size, fits := range map[int64]bool{quota / 4 * 3: true, quota/4*3 + 1: false} {
		dir := placed(t, map[string][]byte{etcdDatabaseName: nil})
		if err := os.Truncate(etcdDatabase(dir), size); err != nil {
			t.Fatal(err)
		}
		if err := EtcdHasRoom(dir, quota); (err == nil) != fits || err != nil && !strings.Contains(err.Error(), "64 MiB") {
			t.Errorf("%d bytes: %v", size, err)
		}
		if err := EtcdHasRoom(dir, 0); err != nil {
			t.Errorf("%d bytes and the usual quota: %v", size, err)
		}
	}
}
