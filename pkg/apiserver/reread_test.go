package apiserver

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/reap-dev/reap/pkg/datastore"
)

// countedKV counts the readings of a datastore.
type countedKV struct {
	clientv3.KV
	reads *atomic.Int64
}

func (c countedKV) Get(ctx context.Context, key string, o ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	c.reads.Add(1)
	return c.KV.Get(ctx, key, o...)
}

// rereadingStore returns a store of ConfigMaps on SQLite as resources without a watch cache have it, and how often it has read.
func rereadingStore(t *testing.T) (storage.Interface, *atomic.Int64) {
	t.Helper()
	kine, err := datastore.Start(t.Context(), datastore.Options{Dir: t.TempDir(), Metrics: prometheus.NewRegistry(), StartTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kine.Stop)
	reads := &atomic.Int64{}
	s := stores{connect: inProcess(func() *clientv3.Client {
		c := kine.Client()
		c.KV = countedKV{c.KV, reads}
		return c
	})}
	config := storagebackend.NewDefaultConfig("/registry", scheme.Codecs.LegacyCodec(corev1.SchemeGroupVersion))
	config.LeaseManagerConfig = etcd3.NewDefaultLeaseManagerConfig()
	store, destroy, err := s.decorator(false)(config.ForResource(schema.GroupResource{Resource: "configmaps"}), "/configmaps", nil,
		func() runtime.Object { return &corev1.ConfigMap{} }, func() runtime.Object { return &corev1.ConfigMapList{} }, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(destroy)
	return store, reads
}

// A request that deletes an object reads it once, and what others do between that reading and the deletion is seen.
func TestDeletionReadsItsObjectOnce(t *testing.T) {
	store, reads := rereadingStore(t)
	const key = "/configmaps/ns/name"
	create := func(t *testing.T, uid types.UID) *corev1.ConfigMap {
		t.Helper()
		made := &corev1.ConfigMap{}
		o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "name", Namespace: "ns", UID: uid, Finalizers: []string{"example.com/f"}}}
		if err := store.Create(t.Context(), key, o, made, 0); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			err := store.Delete(context.WithoutCancel(t.Context()), key, &corev1.ConfigMap{}, nil, rest.ValidateAllObjectFunc, nil, storage.DeleteOptions{})
			if err != nil && !storage.IsNotFound(err) {
				t.Error(err)
			}
		})
		return made
	}
	change := func(ctx context.Context, t *testing.T, f func(*corev1.ConfigMap)) {
		t.Helper()
		err := store.GuaranteedUpdate(ctx, key, &corev1.ConfigMap{}, false, nil, storage.SimpleUpdate(func(o runtime.Object) (runtime.Object, error) {
			f(o.(*corev1.ConfigMap))
			return o, nil
		}), nil)
		if err != nil {
			t.Fatal(err)
		}
	}
	get := func(ctx context.Context) (*corev1.ConfigMap, error) {
		o := &corev1.ConfigMap{}
		return o, store.Get(ctx, key, storage.GetOptions{}, o)
	}
	// read reads as the registry does at the beginning of a deletion, and changes what it got.
	read := func(t *testing.T) context.Context {
		t.Helper()
		ctx := context.WithValue(t.Context(), readingKey{}, new(reading))
		o, err := get(ctx)
		if err != nil {
			t.Fatal(err)
		}
		o.Labels = map[string]string{"by": "the registry"}
		return ctx
	}
	// remove deletes, and returns the last object that admission saw.
	remove := func(ctx context.Context, p *storage.Preconditions) (seen *corev1.ConfigMap, err error) {
		err = store.Delete(ctx, key, &corev1.ConfigMap{}, p, func(_ context.Context, o runtime.Object) error {
			seen = o.(*corev1.ConfigMap).DeepCopy()
			return nil
		}, nil, storage.DeleteOptions{})
		return seen, err
	}
	label := func(o *corev1.ConfigMap) { o.Labels = map[string]string{"by": "another"} }

	t.Run("alone", func(t *testing.T) {
		made := create(t, "1")
		before := reads.Load()
		ctx := read(t)
		seen, err := remove(ctx, &storage.Preconditions{UID: &made.UID, ResourceVersion: &made.ResourceVersion})
		if err != nil || seen.Labels != nil || seen.ResourceVersion != made.ResourceVersion {
			t.Errorf("deleted %v: %v", seen, err)
		}
		if n := reads.Load() - before; n != 1 {
			t.Errorf("the store was read %d times", n)
		}
		if _, err := get(t.Context()); !storage.IsNotFound(err) {
			t.Errorf("after its deletion: %v", err)
		}
	})
	t.Run("changed", func(t *testing.T) {
		made := create(t, "1")
		ctx := read(t)
		change(t.Context(), t, label)
		if _, err := remove(ctx, &storage.Preconditions{UID: &made.UID, ResourceVersion: &made.ResourceVersion}); !storage.IsInvalidObj(err) {
			t.Errorf("the deletion of what was read: %v", err)
		}
		if _, err := get(t.Context()); err != nil {
			t.Errorf("the object that has changed: %v", err)
		}
		ctx = read(t)
		change(t.Context(), t, func(o *corev1.ConfigMap) { o.Labels["by"] = "a third" })
		if seen, err := remove(ctx, &storage.Preconditions{UID: &made.UID}); err != nil || seen.Labels["by"] != "a third" {
			t.Errorf("a deletion by UID deleted %v: %v", seen, err)
		}
	})
	t.Run("made again", func(t *testing.T) {
		made := create(t, "1")
		ctx := read(t)
		if _, err := remove(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := remove(ctx, &storage.Preconditions{UID: &made.UID}); !storage.IsNotFound(err) {
			t.Errorf("the deletion of what is gone: %v", err)
		}
		create(t, "1")
		ctx = read(t)
		if _, err := remove(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		create(t, "2")
		if _, err := remove(ctx, &storage.Preconditions{UID: &made.UID}); !storage.IsInvalidObj(err) {
			t.Errorf("the deletion of what has another UID: %v", err)
		}
		if _, err := get(t.Context()); err != nil {
			t.Errorf("the object that was made again: %v", err)
		}
	})
	t.Run("marked", func(t *testing.T) {
		create(t, "1")
		before := reads.Load()
		change(read(t), t, label)
		if n := reads.Load() - before; n != 1 {
			t.Errorf("the store was read %d times", n)
		}
		if o, err := get(t.Context()); err != nil || o.Labels["by"] != "another" {
			t.Errorf("the object is %v: %v", o, err)
		}
	})
	t.Run("last finalizer", func(t *testing.T) {
		create(t, "1")
		change(t.Context(), t, func(o *corev1.ConfigMap) { o.DeletionTimestamp = &metav1.Time{Time: time.Now()} })
		before := reads.Load()
		ctx := context.WithValue(t.Context(), readingKey{}, new(reading))
		emptied := errors.New("the last finalizer is gone")
		err := store.GuaranteedUpdate(ctx, key, &corev1.ConfigMap{}, false, nil, storage.SimpleUpdate(func(o runtime.Object) (runtime.Object, error) {
			o.(*corev1.ConfigMap).Finalizers = nil
			return nil, emptied
		}), nil)
		if !errors.Is(err, emptied) {
			t.Fatal(err)
		}
		if seen, err := remove(ctx, nil); err != nil || len(seen.Finalizers) != 1 {
			t.Errorf("deleted %v: %v", seen, err)
		}
		if n := reads.Load() - before; n != 1 {
			t.Errorf("the store was read %d times", n)
		}
	})
	t.Run("another object", func(t *testing.T) {
		create(t, "1")
		const other = "/configmaps/ns/other"
		o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "other", Namespace: "ns", UID: "2"}}
		if err := store.Create(t.Context(), other, o, &corev1.ConfigMap{}, 0); err != nil {
			t.Fatal(err)
		}
		err := store.Delete(read(t), other, &corev1.ConfigMap{}, nil, func(_ context.Context, seen runtime.Object) error {
			if name := seen.(*corev1.ConfigMap).Name; name != "other" {
				t.Errorf("admission is shown %s", name)
			}
			return nil
		}, nil, storage.DeleteOptions{})
		if err != nil {
			t.Error(err)
		}
	})
	t.Run("twice", func(t *testing.T) {
		create(t, "1")
		ctx := read(t)
		change(ctx, t, label)
		before := reads.Load()
		change(ctx, t, func(o *corev1.ConfigMap) { o.Labels["by"] = "the same" })
		if n := reads.Load() - before; n != 1 {
			t.Errorf("the second update of a request has read %d times", n)
		}
	})
}

func TestRequestsThatDeleteKeepWhatTheyRead(t *testing.T) {
	for method, want := range map[string]bool{
		http.MethodGet: false, http.MethodPost: false, http.MethodPut: true, http.MethodPatch: true, http.MethodDelete: true,
	} {
		var kept bool
		withReading(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { kept = readingOf(r.Context()) != nil })).
			ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(method, "/api/v1", nil))
		if kept != want {
			t.Errorf("%s: %t", method, kept)
		}
	}
}
