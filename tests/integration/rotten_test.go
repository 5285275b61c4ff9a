package integration

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestRottenIndexCostsNoObject: a flipped bit in an index makes owners answer NotFound that are in the table. Nothing is collected until
// a compaction has made the index anew. Then a log is lost after a kill, which is refused until it is accepted.
func TestRottenIndexCostsNoObject(t *testing.T) {
	t.Parallel()
	const owners = 40
	s := start(t)
	ns := s.namespace(t, "rotten")
	for i := range owners {
		s.create(t, configMaps, ns, fmt.Sprint("dependent-", i), owner(s.create(t, configMaps, ns, fmt.Sprint("owner-", i))))
	}
	s.stop(t)
	database := filepath.Join(s.dir, "db", "state.db")
	before, err := os.ReadFile(database)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(database, flipInIndex(t, before, fmt.Sprintf("/registry/configmaps/%s/owner-", ns), len("/registry/configmaps/")), 0o600); err != nil {
		t.Fatal(err)
	}

	s.restart(t)
	await(t, "the check to have found it", func(context.Context) (bool, any) {
		found := s.metric(t, "reap_datastore_damaged")
		return found == 1, found
	})
	if ratio := s.metric(t, "reap_datastore_checked_ratio"); ratio >= 1 {
		t.Errorf("%v of it count as checked", ratio)
	}
	hidden := 0
	for i := range owners {
		if _, err := s.kube.CoreV1().ConfigMaps(ns).Get(t.Context(), fmt.Sprint("owner-", i), metav1.GetOptions{}); apierrors.IsNotFound(err) {
			hidden++
		}
	}
	if hidden == 0 {
		t.Fatal("the damage hides no owner: the test tests nothing")
	}
	if st := s.status(t); st.Collected != 0 || st.Pause == nil || !strings.Contains(st.Pause.Reason, "reap db compact") {
		t.Errorf("with %d owners hidden the collector says %+v", hidden, st)
	}
	s.stop(t)
	if out, errs, code := s.run(t, "db", "compact"); code != 0 {
		t.Fatalf("reap db compact: %d, %s%s", code, out, errs)
	}

	s.restart(t)
	await(t, "the store to be whole", func(context.Context) (bool, any) {
		ratio := s.metric(t, "reap_datastore_checked_ratio")
		return ratio == 1, ratio
	})
	all, err := s.uids(t.Context(), configMaps, ns)
	if err != nil || len(all) < 2*owners {
		t.Errorf("%d objects are left of %d (%v)", len(all), 2*owners, err)
	}
	await(t, "the collector to run", func(context.Context) (bool, any) {
		st := s.status(t)
		return st.Pause == nil, st.Pause
	})
	s.barrier(t, configMaps, ns) // it collects

	s.mustNoticeALostLog(t, ns)
}

// mustNoticeALostLog loses the log of a server that was killed.
func (s *server) mustNoticeALostLog(t *testing.T, ns string) {
	t.Helper()
	s.stop(t) // which writes the mark down
	database := filepath.Join(s.dir, "db", "state.db")
	old, err := os.ReadFile(database)
	if err != nil {
		t.Fatal(err)
	}
	s.restart(t)
	s.createMany(t, 50, configMaps, ns, "late")
	s.stop(t)
	if err := os.WriteFile(database, old, 0o600); err != nil {
		t.Fatal(err)
	}
	r := run(t, append([]string{"server", "--config="}, s.args...)...)
	r.mustFail(t, "--accept-revision=", "reap snapshot restore")
	_, rest, _ := strings.Cut(r.stderr, "--accept-revision=")
	digits := rest[:bytes.IndexFunc([]byte(rest), func(c rune) bool { return c < '0' || c > '9' })]
	if _, err := strconv.ParseInt(digits, 10, 64); err != nil {
		t.Fatal(err)
	}
	s.restart(t, append(s.args, "--accept-revision="+digits)...)
	await(t, "the collector to be held", func(context.Context) (bool, any) { // once the datastore has been checked
		st := s.status(t)
		return st.Pause != nil && st.Pause.Held && strings.Contains(st.Pause.Reason, "lost at least"), st.Pause
	})
	if uids, err := s.uids(t.Context(), configMaps, ns); err != nil || len(uids) < 80 {
		t.Errorf("%d objects are left (%v)", len(uids), err)
	}
}

// flipInIndex flips a bit of some keys with a prefix in the leaves of SQLite's index of names, that many bytes behind the key's beginning.
func flipInIndex(t *testing.T, content []byte, prefix string, at int) []byte {
	t.Helper()
	const page, indexLeaf = 4096, 0x0a
	flipped := 0
	for begin := page; begin+page <= len(content); begin += page {
		leaf := content[begin : begin+page]
		if leaf[0] != indexLeaf {
			continue
		}
		for from := 0; ; {
			i := bytes.Index(leaf[from:], []byte(prefix))
			if i < 0 {
				break
			}
			// An entry of this index has a head of five bytes, and one of the other index four.
			if from += i; from >= 5 && leaf[from-5] == 5 {
				if flipped%3 == 0 { // some stay as they are
					leaf[from+at] ^= 2
				}
				flipped++
			}
			from += len(prefix)
		}
	}
	if flipped == 0 {
		t.Fatalf("no index has %s", prefix)
	}
	return content
}
