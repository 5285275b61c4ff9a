package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reap-dev/reap/pkg/export"
	"github.com/reap-dev/reap/pkg/service"
	"github.com/reap-dev/reap/tests/size"
)

// exported returns what `reap db export` says of each key of a data directory.
func exported(t *testing.T, dir string) map[string]export.Line {
	t.Helper()
	lines := map[string]export.Line{}
	for line := range strings.Lines(ok(t, "db", "export", "--data-dir", dir, "--config=").stdout) {
		var l export.Line
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		lines[l.Key] = l
	}
	return lines
}

// mustBeExport fails the test unless two exports hold the same. The engines count a key's changes, and its time, each in
// their own way.
func mustBeExport(t *testing.T, got, want map[string]export.Line) {
	t.Helper()
	for key, w := range want {
		g, there := got[key]
		if !there || string(g.Value) != string(w.Value) || g.CreateRevision != w.CreateRevision || g.ModRevision != w.ModRevision ||
			g.Identity != w.Identity || (g.TTLSeconds == 0) != (w.TTLSeconds == 0) {
			t.Errorf("%s is %+v, and was %+v", key, g, w)
		}
	}
	if len(got) != len(want) || len(want) == 0 {
		t.Errorf("%d keys, there were %d", len(got), len(want))
	}
}

// TestConvertedStoreHoldsTheSame goes from SQLite to the embedded etcd and back, with the objects of a server that runs
// before, between and after. An export shows each key, beside the server and without.
func TestConvertedStoreHoldsTheSame(t *testing.T) {
	t.Parallel()
	s := start(t, "--datastore-endpoint=")
	ns := s.namespace(t, "converted")
	const owned = 50
	s.createMany(t, owned, configMaps, ns, "dependent", owner(s.create(t, configMaps, ns, "owner")))
	s.createMany(t, owned, secrets, ns, "unowned")
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "told", Namespace: ns}, InvolvedObject: corev1.ObjectReference{Namespace: ns}, Reason: "Told",
	}
	if _, err := s.kube.CoreV1().Events(ns).Create(t.Context(), event, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	convert := func(to string, more ...string) []string {
		return append([]string{"db", "convert", "--to", to, "--data-dir", s.dir, "--config="}, more...)
	}
	endpoints := map[string]string{"sqlite": "--datastore-endpoint=", "etcd": "--datastore-endpoint=etcd"}
	is := "sqlite"
	for _, to := range []string{"etcd", "sqlite"} {
		run(t, convert(to)...).mustFail(t, "another reap server", s.URL, "stop it")
		list, err := s.meta.Resource(configMaps.gvr).Namespace(ns).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		stats := ok(t, "db", "stats", "--data-dir", s.dir, "--config=").stdout // beside the server
		if !strings.Contains(stats, "configmaps") || !strings.Contains(stats, "compacted up to") {
			t.Errorf("the statistics of %s say %s", is, stats)
		}
		before, running := s.inventory(t), exported(t, s.dir)
		s.stop(t)
		want := exported(t, s.dir)
		told := want["/registry/events/"+ns+"/told"]
		if dependent := running["/registry/configmaps/"+ns+"/dependent-7"]; dependent.Kind != "ConfigMap" || dependent.Name != "dependent-7" ||
			!strings.Contains(string(dependent.Object), `"ownerReferences"`) || told.Kind != "Event" || told.TTLSeconds == 0 {
			t.Errorf("exported from %s: %+v, %+v", is, dependent, told)
		}
		for key, l := range want {
			if strings.HasPrefix(key, "/registry/") && l.Object == nil && key != "/registry/health" {
				t.Errorf("%s of kind %s is exported without its object", key, l.Kind)
			}
		}

		run(t, convert(is)...).mustFail(t, "--to", is+" already")
		says := ok(t, convert(to)...).stdout
		kept, err := filepath.Glob(filepath.Join(s.dir, map[string]string{"sqlite": "db", "etcd": "etcd"}[is]+".before-convert-*"))
		if err != nil || len(kept) != 1 || !strings.Contains(says, kept[0]) || !strings.Contains(says, "--datastore-endpoint") ||
			!strings.Contains(says, fmt.Sprintf("converted %d keys", len(want))) {
			t.Errorf("%q are kept (%v), and it says %s", kept, err, says)
		}
		mustBeExport(t, exported(t, s.dir), want)
		run(t, append([]string{"server", "--config="}, append(s.args, endpoints[is])...)...).
			mustFail(t, "--datastore-endpoint", "reap db convert --to "+is)
		s.restart(t, append(s.args, endpoints[to])...)
		before.mustBe(t, s.inventory(t), nil)
		if _, err := s.kube.CoreV1().Events(ns).Get(t.Context(), "told", metav1.GetOptions{}); err != nil {
			t.Errorf("the event: %v", err)
		}
		s.mustListAnew(t, ns, list.ResourceVersion)
		cascade := s.create(t, configMaps, ns, "cascade-"+to)
		s.createMany(t, owned, secrets, ns, "falls-"+to, owner(cascade))
		s.awaitCount(t, 2*owned, secrets, ns)
		s.delete(t, configMaps, cascade)
		s.awaitCount(t, owned, secrets, ns)
		s.mustWork(t)
		is = to
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	kept := 0
	for _, e := range entries {
		made, forUser := service.Belongs(e.Name())
		if !made {
			t.Errorf("'reap service uninstall --purge' does not know %s, and would never remove what is here", e.Name())
		}
		if forUser {
			kept++
		}
	}
	if kept != 2 {
		t.Errorf("of %v, %d are kept for the user, want both old stores", entries, kept)
	}
	run(t, convert("ectd")...).mustFail(t, "--to", `"ectd"`, "did you mean etcd")
	run(t, "db", "export", "--data-dir", s.dir, "--config=", "--format=db").mustFail(t, "--format", `"db"`)
}

// TestKilledConversionLeavesOneStore kills conversions at random moments, and while the stores are exchanged. Whatever is there then, the next run ends with
// the store that was asked for, and with every key.
func TestKilledConversionLeavesOneStore(t *testing.T) {
	t.Parallel()
	seed := seedOf(t)
	random := rand.New(rand.NewPCG(seed, 0))
	top := t.TempDir()
	unpack(t, older, top) // the database of a killed server, with its log
	original := filepath.Join(top, "data")
	want := exported(t, original)
	args := func(dir, to string) []string {
		return []string{"db", "convert", "--to", to, "--data-dir", dir, "--config="}
	}
	fresh := func() string {
		dir := filepath.Join(t.TempDir(), "data")
		if err := os.CopyFS(dir, os.DirFS(original)); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	began := time.Now()
	ok(t, args(fresh(), "etcd")...)
	took := time.Since(began)

	rounds, killed, old, half := size.Of(2, 8, 16), 0, 0, 0
	dir, is := fresh(), "sqlite"
	for round, tries := 0, 0; round < rounds; tries++ {
		if tries == 5*rounds {
			t.Fatalf("of %d conversions %d were killed; the exchange of the stores was hit %d times", tries, killed, round/2)
		}
		to := map[string]string{"sqlite": "etcd", "etcd": "sqlite"}[is]
		var out bytes.Buffer
		cmd := reap([]string{"HOME=" + t.TempDir()}, args(dir, to)...)
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		atExchange := round%2 != 0 // while the new store takes the old one's place, which is short
		began := true
		if atExchange {
			began = awaitFile(filepath.Join(dir, "converting.json"), ended)
		} else {
			time.Sleep(time.Duration(random.Int64N(int64(took) * 11 / 10))) // a random moment is what is tried
		}
		_ = cmd.Process.Kill() // it may have ended
		err := <-ended
		hit := cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled()
		if hit {
			killed++
		} else if err != nil {
			t.Errorf("a conversion has failed by itself: %v: %s", err, &out)
		}
		if !atExchange || began && hit {
			round++
		}
		switch r := run(t, "db", "export", "--data-dir", dir, "--config="); {
		case r.code == 0:
			mustBeExport(t, exported(t, dir), want)
		case strings.Contains(r.stderr, "reap db convert"):
			half++
		default:
			t.Errorf("after a kill: %s", r.stderr)
		}
		switch r := run(t, args(dir, to)...); {
		case r.code == 0:
			old++
		case !strings.Contains(r.stderr, to+" already"):
			t.Errorf("after a kill: %s", r.stderr)
		}
		mustBeExport(t, exported(t, dir), want)
		if left, err := filepath.Glob(filepath.Join(dir, ".converting")); err != nil || len(left) > 0 {
			t.Errorf("%q is left (%v)", left, err)
		}
		is = to
	}
	if killed < rounds/2 {
		t.Errorf("only %d conversions of %d were killed", killed, rounds)
	}
	size.Power(t, fmt.Sprintf("seed=%d kills=%d before=%d within=%d", seed, killed, old-half, half))
}

// awaitFile returns true as soon as there is a file, and false if the process has ended that should make it.
func awaitFile(path string, ended chan error) bool {
	for {
		if _, err := os.Stat(path); err == nil {
			return true
		}
		select {
		case err := <-ended:
			ended <- err
			return false
		default:
		}
	}
}
