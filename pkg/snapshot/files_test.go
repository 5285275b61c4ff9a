package snapshot

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/flock"
)

// save saves a snapshot with the given time in its manifest.
func save(t *testing.T, dir string, made time.Time) File {
	t.Helper()
	f, err := Save(dir, func(out io.Writer) (Manifest, error) {
		return Write(t.Context(), out, Contents{Source: &store{records: someRecords(3)}, Now: made})
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func filesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestSavedSnapshotIsItsOwnersAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "snapshots")
	f := save(t, dir, noon)
	if f.Name != "reap-00001-20261122T120000Z.snapshot" || f.Path != filepath.Join(dir, f.Name) {
		t.Errorf("it is called %s, at %s", f.Name, f.Path)
	}
	for path, want := range map[string]os.FileMode{dir: 0o700 | os.ModeDir, f.Path: 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: mode %v (%v)", path, info.Mode(), err)
		}
	}
	if names := filesIn(t, dir); len(names) != 1 {
		t.Errorf("the folder holds %q", names)
	}
}

func TestSnapshotThatFailsLeavesNoFile(t *testing.T) {
	dir := t.TempDir()
	broken := errors.New("no")
	if _, err := Save(dir, func(out io.Writer) (Manifest, error) { _, _ = out.Write([]byte("x")); return Manifest{}, broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
	if names := filesIn(t, dir); len(names) != 0 {
		t.Errorf("the folder holds %q", names)
	}
}

// TestOrderNeedsNoClock: a device without a clock starts in 1970.
func TestOrderNeedsNoClock(t *testing.T) {
	dir := t.TempDir()
	var want []string
	for _, made := range []time.Time{noon, time.Unix(0, 0), noon.Add(time.Hour), noon} {
		want = append(want, save(t, dir, made).Name)
	}
	all, err := List(t.Context(), dir, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range all {
		got = append(got, f.Name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	removed, err := Prune(t.Context(), dir, 2, false)
	if err != nil || len(removed) != 2 || !slices.Equal(filesIn(t, dir), want[2:]) {
		t.Errorf("%d removed (%v), %q left", len(removed), err, filesIn(t, dir))
	}
	// A number is not used again while its successor is there.
	if f := save(t, dir, noon); !strings.HasPrefix(f.Name, "reap-00005-") {
		t.Errorf("the next is called %s", f.Name)
	}
}

// Prune keeps unreadable snapshots, other files, and files that are being written.
func TestPruneRemovesOnlyOldSnapshots(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, content []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("reap-00001-20200101T000000Z.snapshot", []byte("damaged"))
	whole := written(t, Contents{Source: &store{records: someRecords(3)}})
	write("before-the-upgrade.snapshot", whole)
	write("notes.txt", nil)
	for range 4 {
		save(t, dir, noon)
	}
	left, busy := filepath.Join(dir, ".reap-1.partial"), filepath.Join(dir, ".reap-2.partial")
	write(filepath.Base(left), nil)
	write(filepath.Base(busy), nil)
	lock := flock.New(busy)
	if locked, err := lock.TryLock(); err != nil || !locked {
		t.Fatal(locked, err)
	}
	t.Cleanup(func() {
		if err := lock.Close(); err != nil {
			t.Error(err)
		}
	})
	before := filesIn(t, dir)
	if removed, err := Prune(t.Context(), dir, 1, true); err != nil || len(removed) != 3 || !slices.Equal(filesIn(t, dir), before) {
		t.Errorf("without doing it: %d, %v, %q", len(removed), err, filesIn(t, dir))
	}
	removed, err := Prune(t.Context(), dir, 1, false)
	if err != nil {
		t.Fatal(err)
	}
	want := slices.DeleteFunc(before, func(name string) bool {
		return name == filepath.Base(left) || slices.ContainsFunc(removed, func(f File) bool { return f.Name == name })
	})
	if got := filesIn(t, dir); len(removed) != 3 || !slices.Equal(got, want) || len(want) != 5 {
		t.Errorf("%d removed, %q left", len(removed), got)
	}
	if _, err := Prune(t.Context(), dir, 0, false); err != nil || len(filesIn(t, dir)) != 4 {
		t.Errorf("%q left (%v)", filesIn(t, dir), err)
	}
}

func TestListFindsDamagedSnapshots(t *testing.T) {
	dir := t.TempDir()
	// Larger than what is read of it for the manifest.
	records := someRecords(200)
	r := rand.NewChaCha8([32]byte{})
	for i := range records {
		records[i].Value = make([]byte, 10<<10)
		_, _ = r.Read(records[i].Value) // never fails
	}
	large := func() File {
		f, err := Save(dir, func(out io.Writer) (Manifest, error) {
			return Write(t.Context(), out, Contents{Source: &store{records: records}, Now: noon})
		})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	good, bad := large(), large()
	raw, err := os.ReadFile(bad.Path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(bad.Path, raw[:len(raw)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	for _, check := range []bool{false, true} {
		told := 0
		all, err := List(t.Context(), dir, check, func(done, all int) { told = all - done })
		if err != nil || len(all) != 2 || told != 1 {
			t.Fatal(all, told, err)
		}
		if all[0].Name != good.Name || all[0].Problem != "" || all[0].Manifest != good.Manifest || all[0].Bytes != int64(len(raw)) {
			t.Errorf("check %v: %+v", check, all[0])
		}
		if found := strings.Contains(all[1].Problem, "cut off"); found != check {
			t.Errorf("check %v: the damaged one has %q", check, all[1].Problem)
		}
	}
}

// TestSaveBesidePrune: a file that is being saved is not locked for a moment, in which another process may take it for one
// that a killed process has left.
func TestSaveBesidePrune(t *testing.T) {
	dir := t.TempDir()
	pruning, stop := make(chan error, 1), make(chan struct{})
	go func() {
		for {
			select {
			case <-stop:
				pruning <- nil
				return
			default:
			}
			if err := removePartials(dir); err != nil {
				pruning <- err
				return
			}
		}
	}()
	for range 100 {
		if f := save(t, dir, noon); f.Bytes == 0 {
			t.Fatalf("%s is empty", f.Name)
		}
		if _, err := Prune(t.Context(), dir, 1, false); err != nil { // so that few are listed
			t.Fatal(err)
		}
	}
	close(stop)
	if err := <-pruning; err != nil {
		t.Error(err)
	}
}

func TestRemovedPartialIsNotLocked(t *testing.T) {
	for what, change := range map[string]func(t *testing.T, path string){
		"it is gone": func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		},
		"another has its name": func(t *testing.T, path string) {
			if err := os.Rename(path, path+".old"); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"its remover has locked it": func(t *testing.T, path string) {
			lock := flock.New(path)
			if locked, err := lock.TryLock(); err != nil || !locked {
				t.Fatal(locked, err)
			}
			t.Cleanup(func() {
				if err := lock.Close(); err != nil {
					t.Error(err)
				}
			})
		},
	} {
		f, err := os.CreateTemp(t.TempDir(), partials)
		if err != nil {
			t.Fatal(err)
		}
		change(t, f.Name())
		before := filesIn(t, filepath.Dir(f.Name()))
		if _, err := lockPartial(f); !errors.Is(err, errRemoved) {
			t.Errorf("%s: %v", what, err)
		}
		if after := filesIn(t, filepath.Dir(f.Name())); !slices.Equal(before, after) {
			t.Errorf("%s: there is %q now, and there was %q", what, after, before)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// An interrupt ends the check within a file: a snapshot may be large, and its disk slow.
func TestCancelledListReadsNoFurther(t *testing.T) {
	dir := t.TempDir()
	save(t, dir, noon)
	ctx, cancel := context.WithCancel(t.Context())
	all, err := List(ctx, dir, true, func(int, int) { cancel() })
	if !errors.Is(err, context.Canceled) || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
}
