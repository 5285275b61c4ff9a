package apiserver

import (
	"context"
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// reading is the object that a request has read last. It is there for one use: a request that has failed with it reads anew.
type reading struct {
	mu     sync.Mutex // a request for a collection may work on several objects at once
	key    string
	object runtime.Object
}

// readingKey is the context key of a request's *reading.
type readingKey struct{}

// withReading lets requests that can delete keep what they have read: DELETE, and the updates that take the last finalizer.
func withReading(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method {
		case http.MethodDelete, http.MethodPatch, http.MethodPut:
			r = r.WithContext(context.WithValue(r.Context(), readingKey{}, new(reading)))
		}
		next.ServeHTTP(w, r)
	})
}

func readingOf(ctx context.Context) *reading {
	r, _ := ctx.Value(readingKey{}).(*reading)
	return r
}

// keep keeps a copy of an object, whose caller may change it. r may be nil.
func (r *reading) keep(key string, object runtime.Object) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.key, r.object = key, object.DeepCopyObject()
}

// take returns the object that was read under the key, once; nil if it is not there. r may be nil.
func (r *reading) take(key string) runtime.Object {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.key != key {
		return nil
	}
	object := r.object
	r.key, r.object = "", nil
	return object
}

// rereading is a store that does not read an object again that the request has just read. A deletion reads twice: first the
// registry asks for the object, then the store reads what it will delete.
//
// It does with a request's reading what kube-apiserver's watch cache does with its copy. The store takes both for a
// suggestion: it writes only if the key still has the suggestion's revision, and reads the object itself if the key has
// another, or if a precondition does not hold for the suggestion.
type rereading struct{ storage.Interface }

func (s rereading) Get(ctx context.Context, key string, o storage.GetOptions, into runtime.Object) error {
	err := s.Interface.Get(ctx, key, o, into)
	if err == nil && !o.IgnoreNotFound { // which reads an absent object as an empty one
		readingOf(ctx).keep(key, into)
	}
	return err
}

func (s rereading) Delete(ctx context.Context, key string, into runtime.Object, p *storage.Preconditions,
	valid storage.ValidateObjectFunc, suggestion runtime.Object, o storage.DeleteOptions,
) error {
	if suggestion == nil {
		suggestion = readingOf(ctx).take(key)
	}
	return s.Interface.Delete(ctx, key, into, p, valid, suggestion, o)
}

func (s rereading) GuaranteedUpdate(ctx context.Context, key string, into runtime.Object, ignoreNotFound bool, p *storage.Preconditions,
	update storage.UpdateFunc, suggestion runtime.Object,
) error {
	r := readingOf(ctx)
	if suggestion == nil {
		suggestion = r.take(key)
	}
	if r != nil {
		change := update
		update = func(current runtime.Object, m storage.ResponseMeta) (runtime.Object, *uint64, error) {
			// The registry ends an update that takes the last finalizer with an error, and deletes the object instead.
			if a, err := meta.Accessor(current); err == nil && a.GetDeletionTimestamp() != nil {
				r.keep(key, current)
			}
			return change(current, m)
		}
	}
	return s.Interface.GuaranteedUpdate(ctx, key, into, ignoreNotFound, p, update, suggestion)
}
