//go:build releasetest && !race

package integration

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/tests/size"
)

// TestQuotaOfEtcdIsUsedUpThroughTheAPI fills the 2 GiB that the embedded etcd may take, which no option changes, with objects of a
// megabyte. Writes are refused with 507 and the directory; reads and deletions go on, also those that begin with a write. They make
// room, and the same process takes writes again. Nothing that was acknowledged is lost. With the race detector the two thousand writes would take
// longer than they may.
func TestQuotaOfEtcdIsUsedUpThroughTheAPI(t *testing.T) {
	s := start(t, "--datastore-endpoint=etcd")
	pid := s.cmd.Process.Pid
	ns := s.namespace(t, "large")
	doomed := s.create(t, secrets, ns, "doomed")
	block := true
	reference := owner(doomed)
	reference.BlockOwnerDeletion = &block
	const quota, each = 2 << 30, 1_000_000
	content := strings.Repeat("x", each)
	kept, dependents := map[string]types.UID{}, map[string]types.UID{}
	began := time.Now()
	var refused error
	for i := 0; refused == nil; i++ {
		if i*each > quota+quota/4 {
			t.Fatalf("%d objects of a megabyte fit into the quota", i)
		}
		o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("large-%d", i)}, Data: map[string]string{"x": content}}
		belongs := kept
		if i%4 > 0 {
			o.OwnerReferences, belongs = []metav1.OwnerReference{reference}, dependents
		}
		var made *corev1.ConfigMap
		if made, refused = s.createLarge(t, ns, o); refused == nil {
			belongs[made.Name] = made.UID
		}
	}
	filled := time.Since(began)
	mustSay := func(doing string, err error) {
		t.Helper()
		var status *apierrors.StatusError
		if !errors.As(err, &status) || status.ErrStatus.Code != http.StatusInsufficientStorage ||
			!strings.Contains(status.ErrStatus.Message, "the disk of "+filepath.Join(s.dir, "etcd")+" is full, or its quota is used up") {
			t.Errorf("%s with the quota used up: %.1000v", doing, err)
		}
	}
	mustSay("creating", refused)
	err := errors.New(etcdIsLate)
	for err != nil && strings.Contains(err.Error(), etcdIsLate) {
		_, err = s.kube.CoreV1().ConfigMaps(ns).Patch(t.Context(), "large-0", types.MergePatchType, []byte(`{"data":{"y":"y"}}`), metav1.PatchOptions{})
	}
	mustSay("patching", err)

	if o, err := s.kube.CoreV1().ConfigMaps(ns).Get(t.Context(), "large-1", metav1.GetOptions{}); err != nil || o.Data["x"] != content {
		t.Errorf("a read with the quota used up: %v", err)
	}
	acknowledged := len(kept) + len(dependents)
	if there := s.uidsOfLarge(t, ns); len(there) != acknowledged {
		t.Errorf("%d objects were acknowledged, %d are there", acknowledged, len(there))
	}

	// The Secret waits for its dependents: it is marked first, and they go one by one.
	began = time.Now()
	s.deleteAs(t, secrets, doomed, foreground)
	await(t, "the end of the cascade", func(ctx context.Context) (bool, any) {
		there, err := s.exists(ctx, secrets, doomed)
		collected, _ := s.samples(ctx, "reap_gc_objects_collected_total")
		return err == nil && !there, fmt.Sprint(err, collected)
	})
	deleted := time.Since(began)
	began = time.Now()
	await(t, "a write once there is room", func(ctx context.Context) (bool, any) {
		o, err := s.kube.CoreV1().ConfigMaps(ns).Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "with-room"}, Data: map[string]string{"x": content},
		}, metav1.CreateOptions{})
		if err == nil {
			kept[o.Name] = o.UID
		}
		return err == nil, err
	})
	relieved := time.Since(began)
	if s.cmd.Process.Pid != pid || !s.running() {
		t.Error("the server has not gone on by itself")
	}
	there := s.uidsOfLarge(t, ns)
	for name, uid := range kept {
		if there[name] != uid {
			t.Errorf("%s was acknowledged, and is not there", name)
		}
	}
	if len(there) != len(kept) {
		t.Errorf("%d objects were to stay, %d are there", len(kept), len(there))
	}
	size.Power(t, fmt.Sprintf("objects=%d filled=%s deleted=%s relieved=%s", acknowledged, filled.Round(time.Second), deleted.Round(time.Second),
		relieved.Round(time.Second)))
}

// etcdIsLate is what etcd answers if a write has taken longer than it should, as on a busy machine: it may be done yet.
const etcdIsLate = "etcdserver: request timed out"

// createLarge creates a ConfigMap, however long that takes.
func (s *server) createLarge(t *testing.T, ns string, o *corev1.ConfigMap) (*corev1.ConfigMap, error) {
	t.Helper()
	for late := false; ; late = true {
		made, err := s.kube.CoreV1().ConfigMaps(ns).Create(t.Context(), o, metav1.CreateOptions{})
		switch {
		case err != nil && strings.Contains(err.Error(), etcdIsLate):
		case late && err != nil: // an earlier try may be done meanwhile
			if there, gone := s.kube.CoreV1().ConfigMaps(ns).Get(t.Context(), o.Name, metav1.GetOptions{}); gone == nil {
				return there, nil
			}
			return nil, err
		default:
			return made, err
		}
	}
}

// uidsOfLarge lists the ConfigMaps of a namespace in pages, since the server reads them whole.
func (s *server) uidsOfLarge(t *testing.T, ns string) map[string]types.UID {
	t.Helper()
	found, options := map[string]types.UID{}, metav1.ListOptions{Limit: 50}
	for {
		list, err := s.meta.Resource(configMaps.gvr).Namespace(ns).List(t.Context(), options)
		if apierrors.IsResourceExpired(err) { // the history has been compacted meanwhile
			found, options.Continue = map[string]types.UID{}, ""
			continue
		}
		if err != nil {
			t.Fatalf("listing with the quota used up: %v", err)
		}
		for _, o := range list.Items {
			if o.Name != rootCA {
				found[o.Name] = o.UID
			}
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return found
		}
	}
}
