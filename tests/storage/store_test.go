package storage

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"k8s.io/apimachinery/pkg/api/apitesting"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/utils/clock"

	"github.com/reap-dev/reap/pkg/datastore"
)

// prefix is before each value in the datastore. The suite's transformer puts it there and demands it.
const prefix = "test!"

// resource is the prefix of all keys of the suite.
const resource = "/pods/"

// patience is how long the suite waits too.
var patience = wait.ForeverTestTimeout

var scheme = runtime.NewScheme()

func init() {
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	utilruntime.Must(example.AddToScheme(scheme))
	utilruntime.Must(examplev1.AddToScheme(scheme))
}

func newCodec() runtime.Codec {
	return apitesting.TestCodec(serializer.NewCodecFactory(scheme), examplev1.SchemeGroupVersion)
}

// engine is a kind of datastore.
type engine struct {
	// endpoint returns where a new, empty datastore is to be; see datastore.Options.
	endpoint func() string
	// dial is true for clients with a connection. Where the datastore has no other, they have one in any case.
	dial bool
	// exceptions are the entries of suite that the engine fails, with the reason.
	exceptions map[string]string
}

// open starts a new datastore, and returns a client of it. Both end with the test.
func (e engine) open(t *testing.T) *clientv3.Client {
	t.Helper()
	s, err := datastore.Start(t.Context(), datastore.Options{
		Dir: t.TempDir(), Endpoint: e.endpoint(), Synchronous: "normal", Metrics: prometheus.NewRegistry(), StartTimeout: time.Minute,
		MinHistory: 1, // the suite compacts up to the last revision
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	var c *clientv3.Client
	if s.Client != nil && !e.dial {
		c = s.Client()
	} else if c, err = clientv3.New(clientv3.Config{Endpoints: s.Endpoints}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // it has only read and written for the test
	return c
}

// opened is the API server's store on a datastore.
type opened struct {
	storage.Interface
	client      *clientv3.Client
	codec       runtime.Codec
	transformer *swappable
	reads       *storagetesting.KVRecorder
	lists       *storagetesting.KubernetesRecorder
}

// with returns the API server's store on a new datastore, with a codec and the transformer that the suite wants.
func (e engine) with(t *testing.T, codec runtime.Codec, transformer value.Transformer) *opened {
	t.Helper()
	// As in pkg/apiserver/storage.go, with recorders of the suite's.
	client := &kubernetes.Client{Client: e.open(t)}
	client.Kubernetes = client
	o := &opened{client: client.Client, codec: codec, transformer: newSwappable(transformer)}
	o.lists = storagetesting.NewKubernetesRecorder(client.Kubernetes)
	o.reads = storagetesting.NewKVRecorder(client.KV, o.lists)
	client.KV, client.Kubernetes = o.reads, o.lists

	compactor := etcd3.NewCompactor(client.Client, 0, clock.RealClock{}, nil) // it only watches what others have compacted
	t.Cleanup(compactor.Stop)
	leases := etcd3.NewDefaultLeaseManagerConfig()
	leases.ReuseDurationSeconds = 1 // what expires does so within the suite's patience
	versioner := storage.APIObjectVersioner{}
	s, err := etcd3.New(client, compactor, codec,
		func() runtime.Object { return &example.Pod{} }, func() runtime.Object { return &example.PodList{} },
		"", resource, schema.GroupResource{Resource: "pods"}, o.transformer, leases, etcd3.NewDefaultDecoder(codec, versioner), versioner)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	o.Interface = s
	return o
}

// plain returns the API server's store on a new datastore.
func (e engine) plain(t *testing.T) *opened {
	t.Helper()
	return e.with(t, newCodec(), storagetesting.NewPrefixTransformer([]byte(prefix), false))
}

// stored fails the test unless the value of a key is an object without what is not to be stored.
func (o *opened) stored(ctx context.Context, t *testing.T, key string) {
	t.Helper()
	got, err := o.client.Get(ctx, key)
	if err != nil || len(got.Kvs) != 1 {
		t.Fatalf("reading %s: %v (%v)", key, got, err)
	}
	object, err := runtime.Decode(o.codec, got.Kvs[0].Value[len(prefix):])
	if err != nil {
		t.Fatal(err)
	}
	if pod := object.(*example.Pod); pod.ResourceVersion != "" {
		t.Errorf("the stored object has resourceVersion %q", pod.ResourceVersion)
	}
}

// write writes a key that is none of the suite's, and returns the revision.
func (o *opened) write(ctx context.Context, t *testing.T) int64 {
	t.Helper()
	put, err := o.client.Put(ctx, "increaseRV", "ok")
	if err != nil {
		t.Fatal(err)
	}
	return put.Header.Revision
}

// compact compacts up to a revision, as an API server does, and returns when the store knows of it.
func (o *opened) compact(ctx context.Context, t *testing.T, resourceVersion string) {
	t.Helper()
	revision, err := strconv.ParseInt(resourceVersion, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, compacted, err := etcd3.Compact(ctx, o.client, 0, revision); err != nil || compacted != revision {
		t.Fatalf("compacted up to %d, want %d (%v)", compacted, revision, err)
	}
	err = wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		return o.CompactRevision() == revision, nil
	})
	if err != nil {
		t.Fatalf("compacted up to %d, and the store says %d", revision, o.CompactRevision())
	}
}

// calls fails the test unless a list has read that many objects, with as few calls as etcd would need: the store doubles the pages
// that it asks for until it has found as many objects as it was asked for.
func (o *opened) calls(t *testing.T, pageSize, objects uint64) {
	t.Helper()
	if read := o.transformer.load().(*storagetesting.PrefixTransformer).GetReadsAndReset(); read != objects {
		t.Errorf("%d objects were read, want %d", read, objects)
	}
	const largest = 10_000 // page
	want := uint64(1)
	for page, sum := pageSize, uint64(1); pageSize > 0 && sum < objects; want++ {
		page = min(2*page, largest)
		sum += page
	}
	if calls := o.reads.GetReadsAndReset() + o.reads.GetStreamReadsAndReset(); calls != want {
		t.Fatalf("%d calls, want %d", calls, want)
	}
}

// keys returns the keys of all objects.
func (o *opened) keys(ctx context.Context) ([]string, error) {
	got, err := o.client.Get(ctx, resource, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return nil, err
	}
	var keys []string
	for _, kv := range got.Kvs {
		keys = append(keys, string(kv.Key))
	}
	return keys, nil
}

// swappable is a transformer that another can take the place of, while the store is used.
type swappable struct {
	now atomic.Pointer[value.Transformer]
}

func newSwappable(t value.Transformer) *swappable {
	s := &swappable{}
	s.now.Store(&t)
	return s
}

func (s *swappable) load() value.Transformer { return *s.now.Load() }

// swap returns a function that takes it back.
func (s *swappable) swap(t value.Transformer) (back func()) {
	before := s.now.Swap(&t)
	return func() { s.now.Store(before) }
}

func (s *swappable) TransformFromStorage(ctx context.Context, data []byte, dataContext value.Context) ([]byte, bool, error) {
	return s.load().TransformFromStorage(ctx, data, dataContext)
}

func (s *swappable) TransformToStorage(ctx context.Context, data []byte, dataContext value.Context) ([]byte, error) {
	return s.load().TransformToStorage(ctx, data, dataContext)
}

// UpdatePrefixTransformer implements storagetesting.InterfaceWithPrefixTransformer.
func (o *opened) UpdatePrefixTransformer(modify storagetesting.PrefixTransformerModifier) func() {
	copied := *o.transformer.load().(*storagetesting.PrefixTransformer)
	return o.transformer.swap(modify(&copied))
}

// UpdateTransformer implements storagetesting.InterfaceWithTransformerOverride.
func (o *opened) UpdateTransformer(modify storagetesting.TransformerModifier) func() {
	return o.transformer.swap(modify(o.transformer.load()))
}

// errUnreadable is the error of what cannot be read although it is there.
var errUnreadable = errors.New("bits flipped")

// corrupt returns the error that the API server's transformer makes of a value that it cannot read. Its type is private.
func corrupt(t *testing.T) error {
	t.Helper()
	broken := &fallible{Transformer: storagetesting.NewPrefixTransformer(nil, false)}
	broken.setFailing(true)
	_, _, err := etcd3.WithCorruptObjErrorHandlingTransformer(broken).TransformFromStorage(t.Context(), nil, value.DefaultContext(nil))
	if !errors.Is(err, errUnreadable) {
		t.Fatalf("the error is %v", err)
	}
	return err
}

// fallible is a transformer or a codec whose reads can be made to fail.
type fallible struct {
	value.Transformer
	runtime.Codec
	fails atomic.Bool
}

func (f *fallible) setFailing(fails bool) { f.fails.Store(fails) }

func (f *fallible) TransformFromStorage(ctx context.Context, data []byte, dataContext value.Context) ([]byte, bool, error) {
	if f.fails.Load() {
		return nil, false, errUnreadable
	}
	return f.Transformer.TransformFromStorage(ctx, data, dataContext)
}

func (f *fallible) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if f.fails.Load() {
		return nil, nil, errUnreadable
	}
	return f.Codec.Decode(data, defaults, into)
}
