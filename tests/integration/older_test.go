package integration

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/klauspost/compress/zstd"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// older is the data directory of an older build; testdata/make-older says what is in it.
const older = "testdata/older-a0f612b.tar.zst"

// TestServerContinuesFromAnOlderBuildsData starts the present server on the data directory of an older one that was killed. All
// its objects are there, and unfinished deletions end with their propagation policies.
func TestServerContinuesFromAnOlderBuildsData(t *testing.T) {
	t.Parallel() // it mostly waits
	aboutSQLite(t)
	top := t.TempDir()
	unpack(t, older, top)
	s := newServer(top)
	s.start(t)
	const ns = "older"
	widgets := kind{configMaps.gvr, "Widget"}
	widgets.gvr.Group, widgets.gvr.Resource = "example.com", "widgets"

	for k, want := range map[kind][]string{
		configMaps: {"blocking-too", "keeper", "orphaned", "ring-1", "ring-2", "waiting"},
		secrets:    {"blocking", "dangling", "dangling-too", "freed", "kept", "of-widget-gone", "of-widget-kept"},
		widgets:    {"widget-gone", "widget-kept"},
	} {
		gone := []string{"blocking", "blocking-too", "dangling", "dangling-too", "of-widget-gone", "orphaned", "ring-1", "ring-2", "waiting", "widget-gone"}
		want = slices.DeleteFunc(want, func(name string) bool { return slices.Contains(gone, name) })
		await(t, fmt.Sprintf("%v of %s", want, k.gvr.Resource), func(ctx context.Context) (bool, any) {
			found, err := s.uids(ctx, k, ns)
			names := []string{}
			for name := range found {
				names = append(names, name)
			}
			slices.Sort(names)
			return err == nil && slices.Equal(names, want), fmt.Sprint(names, err)
		})
	}
	keeper := s.read(t, configMaps, ns, "keeper")
	if says, _, _ := unstructured.NestedString(keeper.Object, "data", "says"); says != "kept" {
		t.Errorf("a ConfigMap says %q", says)
	}
	s.mustHaveOwners(t, secrets, s.read(t, secrets, ns, "kept"), blocking(keeper))
	s.mustHaveOwners(t, secrets, s.read(t, secrets, ns, "of-widget-kept"), blocking(s.read(t, widgets, ns, "widget-kept")))
	s.mustHaveOwners(t, secrets, s.read(t, secrets, ns, "freed"))

	// The controllers go on with what they had made.
	deployment := s.read(t, deployments, ns, "web-kept")
	sets := s.awaitOwned(t, 1, replicaSets, ns, deployment)
	s.awaitOwned(t, 1, pods, ns, sets[0])
	s.awaitCount(t, 1, replicaSets, ns)
	s.awaitCount(t, 1, pods, ns)
	s.deleteAs(t, deployments, deployment, foreground)
	s.awaitGone(t, deployments, deployment)
	s.awaitCount(t, 0, replicaSets, ns)
	s.awaitCount(t, 0, pods, ns)
	s.mustWork(t)
}

func (s *server) read(t *testing.T, k kind, ns, name string) *unstructured.Unstructured {
	t.Helper()
	o, err := s.dyn.Resource(k.gvr).Namespace(ns).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// unpack writes an archive's files below a directory.
func unpack(t *testing.T, archive, into string) {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // only read
	z, err := zstd.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(into, h.Name)
		if h.Typeflag == tar.TypeDir {
			err = os.Mkdir(path, h.FileInfo().Mode())
		} else if raw, readErr := io.ReadAll(r); readErr != nil {
			err = readErr
		} else {
			err = os.WriteFile(path, raw, h.FileInfo().Mode())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestNewerBuildsDataIsRefused, before anything is written.
func TestNewerBuildsDataIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "format.json"), []byte(`{"format": 99, "version": "v9.9.9"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, "server", "--config=", "--data-dir", dir, "--https-listen-port=0").mustFail(t, "v9.9.9", "format 99", "reap snapshot restore")
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range left {
		if name := f.Name(); name != "format.json" && name != "lock" {
			t.Errorf("%s was made", name)
		}
	}
}
