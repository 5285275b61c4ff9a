package apiserver

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
)

// onFullDisk returns the context of a request that has found the disk full.
func onFullDisk(ctx context.Context, left float64) context.Context {
	r := httptest.NewRequest(http.MethodPatch, "/", nil).WithContext(ctx)
	store := Store{Left: func() float64 { return left }}
	return withFullDisk(r, &request.RequestInfo{Verb: "patch"}, store, "the disk is full").Context()
}

// TestFullDiskTakesWhatLeadsToLess, and no other update, nor an update that creates.
func TestFullDiskTakesWhatLeadsToLess(t *testing.T) {
	store, _ := rereadingStore(t)
	const key = "/configmaps/ns/name"
	finalizers := []string{"example.com/a", "example.com/b"}
	grow := func(bytes int) func(*corev1.ConfigMap) {
		return func(o *corev1.ConfigMap) { o.Data["grown"] = strings.Repeat("x", bytes) }
	}
	release := func(o *corev1.ConfigMap) { o.Finalizers = o.Finalizers[1:] }
	for name, c := range map[string]struct {
		terminating bool
		left        float64
		change      func(*corev1.ConfigMap)
		taken       bool
	}{
		"label":                                     {false, 1, func(o *corev1.ConfigMap) { o.Labels = map[string]string{"a": "b"} }, false},
		"same size":                                 {false, 1, func(o *corev1.ConfigMap) { o.Data["a"] = "yyyyy" }, false},
		"smaller":                                   {false, 0.3, func(o *corev1.ConfigMap) { o.Data["a"] = "y" }, true},
		"smaller, hardly any room":                  {false, 0.2, func(o *corev1.ConfigMap) { o.Data["a"] = "y" }, false},
		"finalizer off":                             {false, 0.3, release, true},
		"finalizer off, growing":                    {false, 0.3, func(o *corev1.ConfigMap) { release(o); grow(300)(o) }, true},
		"finalizer off, growing by much":            {false, 1, func(o *corev1.ConfigMap) { release(o); grow(mayGrow + 100)(o) }, false},
		"finalizer off, hardly any room":            {false, 0.2, release, false},
		"another finalizer":                         {false, 1, func(o *corev1.ConfigMap) { o.Finalizers = []string{"example.com/c"}; grow(100)(o) }, false},
		"finalizer on":                              {false, 1, func(o *corev1.ConfigMap) { o.Finalizers = append(o.Finalizers, "example.com/c") }, false},
		"terminating, finalizer off":                {true, 0.3, release, true},
		"terminating, same size":                    {true, 0.3, func(o *corev1.ConfigMap) { o.Data["a"] = "yyyyy" }, true},
		"terminating, growing":                      {true, 0.6, grow(1000), true},
		"terminating, growing, half of the room":    {true, 0.4, grow(1000), false},
		"terminating, growing by much":              {true, 1, grow(mayGrow + 100), false},
		"terminating, same size, hardly any room":   {true, 0.2, func(o *corev1.ConfigMap) { o.Data["a"] = "yyyyy" }, false},
		"terminating, both finalizers, and smaller": {true, 0.3, func(o *corev1.ConfigMap) { o.Finalizers, o.Data = nil, nil }, true},
	} {
		o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "name", Namespace: "ns", Finalizers: finalizers}, Data: map[string]string{"a": "xxxxx"}}
		if c.terminating {
			o.DeletionTimestamp = &metav1.Time{Time: time.Unix(1_800_000_000, 0)}
		}
		if err := store.Create(t.Context(), key, o, &corev1.ConfigMap{}, 0); err != nil {
			t.Fatal(err)
		}
		update := func(current runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
			changed := current.DeepCopyObject().(*corev1.ConfigMap)
			c.change(changed)
			return changed, nil, nil
		}
		err := store.GuaranteedUpdate(onFullDisk(t.Context(), c.left), key, &corev1.ConfigMap{}, false, nil, update, nil)
		if (err == nil) != c.taken || err != nil && !isRefusal(err) {
			t.Errorf("%s, with %.1f of the room left: %v", name, c.left, err)
		}
		if err := store.GuaranteedUpdate(t.Context(), key, &corev1.ConfigMap{}, false, nil, update, nil); err != nil {
			t.Errorf("%s, with room: %v", name, err)
		}
		if err := store.Delete(onFullDisk(t.Context(), 0), key, &corev1.ConfigMap{}, nil, rest.ValidateAllObjectFunc, nil, storage.DeleteOptions{}); err != nil {
			t.Fatalf("deleting what is to be changed, %s: %v", name, err)
		}
	}

	made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "name", Namespace: "ns"}}
	create := func(runtime.Object, storage.ResponseMeta) (runtime.Object, *uint64, error) { return made, nil, nil }
	if err := store.GuaranteedUpdate(onFullDisk(t.Context(), 1), key, &corev1.ConfigMap{}, true, nil, create, nil); !isRefusal(err) {
		t.Errorf("an update that creates: %v", err)
	}
	if err := store.Create(onFullDisk(t.Context(), 1), key, made, &corev1.ConfigMap{}, 0); !isRefusal(err) {
		t.Errorf("a creation: %v", err)
	}
	// The registry ends an update that takes the last finalizer with an error of its own, and deletes the object.
	if err := store.Create(t.Context(), key, made, &corev1.ConfigMap{}, 0); err != nil {
		t.Fatal(err)
	}
	errEmptied := errors.New("no finalizer is left")
	empty := func(runtime.Object, storage.ResponseMeta) (runtime.Object, *uint64, error) {
		return nil, nil, errEmptied
	}
	if err := store.GuaranteedUpdate(onFullDisk(t.Context(), 0), key, &corev1.ConfigMap{}, false, nil, empty, nil); !errors.Is(err, errEmptied) {
		t.Errorf("an update that the registry ends: %v", err)
	}
}

// isRefusal reports whether an error is the answer to a write with a full disk.
func isRefusal(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && status.ErrStatus.Code == http.StatusInsufficientStorage && status.ErrStatus.Message == "the disk is full"
}

// TestFullDiskRenewsLeases, and lets the job controller count pods, which it does before it takes their finalizers off.
func TestFullDiskRenewsLeases(t *testing.T) {
	leases, jobs := schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}, schema.GroupResource{Group: "batch", Resource: "jobs"}
	for name, c := range map[string]struct {
		resource    schema.GroupResource
		subresource string
		inProcess   bool
		left        float64
		bytes, more int
		taken       bool
	}{
		"controller's lease":       {leases, "", true, 0, 400, 2, true},
		"client's lease":           {leases, "", false, 0.3, 400, 2, true},
		"client's lease, no room":  {leases, "", false, 0.2, 400, 2, false},
		"lease that grows":         {leases, "", true, 1, leaseSize, 1, false},
		"job's status":             {jobs, "status", true, 0.6, 1000, 100, true},
		"job's status, half full":  {jobs, "status", true, 0.4, 1000, 100, false},
		"client's status of a job": {jobs, "status", false, 1, 1000, 100, false},
		"job":                      {jobs, "", true, 1, 1000, 100, false},
	} {
		f := &fullDisk{subresource: c.subresource, inProcess: c.inProcess, left: func() float64 { return c.left }}
		if taken := f.takes(c.resource, weight{stored: true, bytes: c.bytes}, weight{stored: true, bytes: c.bytes + c.more}); taken != c.taken {
			t.Errorf("%s: taken is %t", name, taken)
		}
	}
}

// TestGuardMarksUpdatesOnAFullDisk: the store decides about updates while the disk is full, and the guard about all else.
func TestGuardMarksUpdatesOnAFullDisk(t *testing.T) {
	var code int
	var marked *fullDisk
	h := guarded(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		marked, _ = r.Context().Value(fullKey{}).(*fullDisk)
	}), Store{
		Refusal: func() (int, string) { return code, "it takes no writes" },
		Left:    func() float64 { return 1 },
		Explain: func(string) (int, string) { return 0, "" },
	})
	var answers []int
	for _, code = range []int{0, http.StatusInsufficientStorage, http.StatusServiceUnavailable} {
		marked = nil
		ctx := request.WithRequestInfo(t.Context(), &request.RequestInfo{IsResourceRequest: true, Verb: "update", Subresource: "status"})
		ctx = context.WithValue(ctx, callerKey{}, &user.DefaultInfo{Name: "system:serviceaccount:kube-system:job-controller"})
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPut, "/", nil).WithContext(ctx))
		answers = append(answers, w.Code)
		if full := code == http.StatusInsufficientStorage; (marked != nil) != full || full && (!marked.inProcess || marked.subresource != "status") {
			t.Errorf("while the store says %d, the request is marked with %+v", code, marked)
		}
	}
	if want := []int{http.StatusOK, http.StatusOK, http.StatusServiceUnavailable}; !slices.Equal(answers, want) {
		t.Errorf("answers are %d, want %d", answers, want)
	}
}
