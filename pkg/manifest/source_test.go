package manifest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
)

const anObject = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func mkfifo(t *testing.T, path string) {
	t.Helper()
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
}

func symlink(t *testing.T, target, link string) {
	t.Helper()
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
}

// TestOnlyRegularFilesAreRead: a named pipe, a link to a device and a file that is too large are refused at once.
func TestOnlyRegularFilesAreRead(t *testing.T) {
	dir := t.TempDir()
	fifo, zero, large := filepath.Join(dir, "fifo.yaml"), filepath.Join(dir, "zero.yaml"), filepath.Join(dir, "large.yaml")
	mkfifo(t, fifo)
	symlink(t, "/dev/zero", zero)
	write(t, large, "")
	if err := os.Truncate(large, MaxSize+1); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{fifo: "a named pipe", zero: "a device", large: "more than 256 MiB"} {
		if _, err := Load(t.Context(), []string{path}, false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

// TestFilesSwappedBeforeTheyAreOpened: a regular file that has become a named pipe does not block, and one that has become a link
// is not followed out of its folder.
func TestFilesSwappedBeforeTheyAreOpened(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo.yaml")
	mkfifo(t, fifo)
	// What readNamed has found to be a regular file.
	if _, err := open(fifo); err == nil || !strings.Contains(err.Error(), "a named pipe") {
		t.Errorf("opening a named pipe: %v", err)
	}
	folder, outside := filepath.Join(dir, "folder"), filepath.Join(dir, "outside.yaml")
	write(t, outside, anObject)
	for _, name := range []string{"fifo.yaml", "link.yaml"} {
		write(t, filepath.Join(folder, name), anObject)
	}
	f, err := find(os.Stdin, []string{folder}, false)
	if err != nil || len(f.sources) != 2 || len(f.leftOut) != 0 {
		t.Fatalf("%+v, %v", f, err)
	}
	for _, s := range f.sources {
		if err := os.Remove(s.path); err != nil {
			t.Fatal(err)
		}
	}
	mkfifo(t, filepath.Join(folder, "fifo.yaml"))
	symlink(t, outside, filepath.Join(folder, "link.yaml"))
	for _, s := range f.sources {
		if raw, err := s.read(t.Context()); err == nil || !strings.Contains(err.Error(), s.path) {
			t.Errorf("%s: %q, %v", s.path, raw, err)
		}
	}
}

// TestFoldersSayWhatIsLeftOut: links within a folder are followed; the rest that is no regular file is left out, and listed.
func TestFoldersSayWhatIsLeftOut(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "folder")
	write(t, filepath.Join(dir, "outside.yaml"), anObject)
	write(t, filepath.Join(folder, "..data", "mounted.yaml"), anObject)
	write(t, filepath.Join(folder, "below", "deep.yaml"), anObject)
	write(t, filepath.Join(folder, "a.yaml"), anObject)
	write(t, filepath.Join(folder, "notes.txt"), "no manifest")
	symlink(t, "..data/mounted.yaml", filepath.Join(folder, "b.json"))
	symlink(t, filepath.Join(folder, "a.yaml"), filepath.Join(folder, "c.yml"))
	symlink(t, "../outside.yaml", filepath.Join(folder, "d.yaml"))
	symlink(t, "/dev/zero", filepath.Join(folder, "e.yaml"))
	symlink(t, "nothing", filepath.Join(folder, "f.yaml"))
	symlink(t, "below", filepath.Join(folder, "g.yaml"))
	mkfifo(t, filepath.Join(folder, "h.yaml"))
	mkfifo(t, filepath.Join(folder, "no-manifest"))
	socket, err := net.Listen("unix", filepath.Join(folder, "i.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	symlink(t, "folder", filepath.Join(dir, "linked"))

	t.Chdir(dir)
	for _, name := range []string{folder, "folder", "./linked/", "linked"} {
		set, err := Load(t.Context(), []string{name}, false)
		if err != nil {
			t.Fatal(err)
		}
		var read []string
		for _, f := range set.Files {
			read = append(read, f.Path)
		}
		in := func(file string) string { return filepath.Join(name, file) }
		if want := []string{in("a.yaml"), in("b.json"), in("c.yml")}; !reflect.DeepEqual(read, want) {
			t.Errorf("%s: %q were read, want %q", name, read, want)
		}
		const leaves = "link that leaves the folder"
		if want := []LeftOut{
			{in("d.yaml"), leaves}, {in("e.yaml"), leaves}, {in("f.yaml"), "broken link"},
			{in("g.yaml"), "link to a folder"}, {in("h.yaml"), "named pipe"}, {in("i.yaml"), "socket"},
		}; !reflect.DeepEqual(set.LeftOut, want) {
			t.Errorf("%s: %+v were left out, want %+v", name, set.LeftOut, want)
		}
	}
	if set, err := Load(t.Context(), []string{folder}, true); err != nil || len(set.Files) != 5 {
		t.Errorf("with what is below: %d files, %v", len(set.Files), err)
	}
	// A link that the user names is followed.
	if set, err := Load(t.Context(), []string{filepath.Join(folder, "d.yaml"), filepath.Join(folder, "[ab].*")}, false); err != nil || len(set.Files) != 3 {
		t.Errorf("by their names: %d files, %v", len(set.Files), err)
	}
	only := filepath.Join(dir, "only")
	write(t, filepath.Join(only, "notes.txt"), "")
	symlink(t, "../outside.yaml", filepath.Join(only, "a.yaml"))
	if _, err := Load(t.Context(), []string{only}, false); err == nil || !strings.Contains(err.Error(), "is left out (link that leaves the folder)") {
		t.Errorf("a folder of which all is left out: %v", err)
	}
}

// TestReadsNothing: a name that stands for no object is an error, as for kubectl.
func TestReadsNothing(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.yaml")
	write(t, empty, "# nothing\n---\n")
	for name, want := range map[string]string{
		empty: "there is no object in", t.TempDir(): "there is no .json, .yaml, .yml file in",
		filepath.Join(dir, "absent.yaml"): "no such file", filepath.Join(dir, "*.jsn"): "no file matches",
	} {
		if _, err := Load(t.Context(), []string{name}, false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	if _, err := Load(t.Context(), []string{"-", "-"}, false); err == nil || !strings.Contains(err.Error(), "only once") {
		t.Errorf("standard input twice: %v", err)
	}
}

// TestUnreadableFilesAreNamed: several at once, and not thousands.
func TestUnreadableFilesAreNamed(t *testing.T) {
	dir := t.TempDir()
	for i := range 9 {
		write(t, filepath.Join(dir, fmt.Sprint(i, ".yaml")), "a: [")
	}
	_, err := Load(t.Context(), []string{dir}, false)
	if err == nil || strings.Count(err.Error(), ".yaml") != problemsShown || !strings.Contains(err.Error(), "and 4 more files") {
		t.Errorf("%v", err)
	}
}

// fromStandardInput makes what is read from in standard input.
func fromStandardInput(t *testing.T, in *os.File) {
	t.Helper()
	before := os.Stdin
	os.Stdin = in
	t.Cleanup(func() { os.Stdin = before })
}

// TestStandardInput has the same limit as a file.
func TestStandardInput(t *testing.T) {
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fromStandardInput(t, out)
	if _, err := in.WriteString(anObject + "---\n" + anObject); err != nil {
		t.Fatal(err)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if set, err := Load(t.Context(), []string{"-"}, false); err != nil || len(set.Files) != 1 || len(set.Files[0].Objects) != 2 || set.Files[0].Path != "STDIN" {
		t.Errorf("%+v, %v", set, err)
	}
	large, err := os.Create(filepath.Join(t.TempDir(), "large"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = large.Close() })
	if err := large.Truncate(1<<20 + 1); err != nil {
		t.Fatal(err)
	}
	if _, err := readUpTo(large, "standard input", 1<<20); err == nil || err.Error() != "standard input has more than 1 MiB, the most that is read at once; split it" {
		t.Errorf("%v", err)
	}
}

// TestCancellingAborts the read of standard input, and of a URL, that nothing comes from.
func TestCancellingAborts(t *testing.T) {
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close() })
	fromStandardInput(t, out)
	asked := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(asked)
		<-r.Context().Done()
	}))
	t.Cleanup(silent.Close)
	stopped := errors.New("stopped")
	for _, name := range []string{"-", silent.URL} {
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			if name == "-" {
				// More than a pipe holds is taken only by a reader.
				_, _ = in.Write(make([]byte, 1<<20))
			} else {
				<-asked
			}
			cancel(stopped)
		}()
		if _, err := Load(ctx, []string{name}, false); !errors.Is(err, stopped) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestURLs are read; what their server says is passed on, and no password.
func TestURLs(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/a.yaml" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(anObject))
	}))
	t.Cleanup(s.Close)
	withPassword := strings.Replace(s.URL, "http://", "http://user:hunter2@", 1)
	set, err := Load(t.Context(), []string{withPassword + "/a.yaml"}, false)
	if err != nil || len(set.Files[0].Objects) != 1 || strings.Contains(set.Files[0].Path, "hunter2") {
		t.Errorf("%+v, %v", set, err)
	}
	for name, want := range map[string]string{
		withPassword + "/b.yaml": "404 Not Found", "http://user:hunter2@127.0.0.1:1/": "refused", "http://user:hunter2@[": "cannot be parsed",
	} {
		if _, err := Load(t.Context(), []string{name}, false); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}
