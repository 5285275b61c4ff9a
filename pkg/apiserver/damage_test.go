package apiserver

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"github.com/reap-dev/reap/pkg/datastore"
	"github.com/reap-dev/reap/tests/bubble"
)

// TestDamagedObjectIsNamed: reads of an object that does not decode, or that decodes and cannot be encoded, fail with one
// error that names its key and what helps. It can be deleted alone, and reads succeed again.
func TestDamagedObjectIsNamed(t *testing.T) {
	kine, err := datastore.Start(t.Context(), datastore.Options{Dir: t.TempDir(), Metrics: prometheus.NewRegistry(), StartTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kine.Stop)
	found := &damage{}
	s := stores{connect: inProcess(kine.Client), damage: found}
	// As kube-apiserver stores objects: in protobuf.
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	codec := legacyscheme.Codecs.CodecForVersions(info.Serializer, legacyscheme.Codecs.UniversalDeserializer(), corev1.SchemeGroupVersion, corev1.SchemeGroupVersion)
	config := storagebackend.NewDefaultConfig("/registry", codec)
	config.LeaseManagerConfig = etcd3.NewDefaultLeaseManagerConfig()
	store, destroy, err := s.decorator(false)(config.ForResource(schema.GroupResource{Resource: "configmaps"}), "/configmaps", nil,
		func() runtime.Object { return &corev1.ConfigMap{} }, func() runtime.Object { return &corev1.ConfigMapList{} }, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(destroy)
	const key = "/configmaps/ns/name"
	everything := storage.ListOptions{Recursive: true, Predicate: storage.Everything}
	reads := map[string]func(ctx context.Context) error{
		"get": func(ctx context.Context) error { return store.Get(ctx, key, storage.GetOptions{}, &corev1.ConfigMap{}) },
		"list": func(ctx context.Context) error {
			return store.GetList(ctx, "/configmaps", everything, &corev1.ConfigMapList{})
		},
		"update": func(ctx context.Context) error {
			return store.GuaranteedUpdate(ctx, key, &corev1.ConfigMap{}, false, nil, storage.SimpleUpdate(func(o runtime.Object) (runtime.Object, error) {
				o.(*corev1.ConfigMap).Data = map[string]string{"changed": "yes"}
				return o, nil
			}), nil)
		},
	}
	for name, damaged := range map[string]func([]byte) []byte{
		"a byte in managedFields": func(v []byte) []byte { return bytes.Replace(v, []byte(`"f:data"`), []byte("\"f:dat\x00\""), 1) },
		"bytes in the value":      func(v []byte) []byte { return append(v[:8:8], bytes.Repeat([]byte{0xff}, len(v)-8)...) },
	} {
		t.Run(name, func(t *testing.T) {
			o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "name", Namespace: "ns", ManagedFields: []metav1.ManagedFieldsEntry{
				{Manager: "m", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:data":{}}`)},
			}}}
			if err := store.Create(t.Context(), key, o, &corev1.ConfigMap{}, 0); err != nil {
				t.Fatal(err)
			}
			for read, f := range reads {
				if err := f(t.Context()); err != nil {
					t.Errorf("%s of a sound object: %v", read, err)
				}
			}
			spoil(t, kine.Client(), "/registry"+key, damaged)
			for read, f := range reads {
				var status *apierrors.StatusError
				if err := f(t.Context()); !errors.As(err, &status) || status.ErrStatus.Code != 500 || status.ErrStatus.Reason != metav1.StatusReasonStoreReadError ||
					!strings.HasPrefix(err.Error(), "the stored object /registry"+key+" of configmaps is damaged: ") || !strings.Contains(err.Error(), "`reap db check`") {
					t.Errorf("%s: %v", read, err)
				}
			}
			if err := found.found(); err == nil {
				t.Error("the damage is not noticed")
			}
			if err := store.Delete(t.Context(), key, &corev1.ConfigMap{}, nil, rest.ValidateAllObjectFunc, nil, storage.DeleteOptions{ExpectTransformOrDecodeError: true}); err != nil {
				t.Fatal(err)
			}
			if err := reads["list"](t.Context()); err != nil {
				t.Errorf("list after its deletion: %v", err)
			}
		})
	}
}

// spoil changes the value of a key, which must then differ.
func spoil(t *testing.T, c *clientv3.Client, key string, f func([]byte) []byte) {
	t.Helper()
	got, err := c.Get(t.Context(), key)
	if err != nil || len(got.Kvs) != 1 {
		t.Fatal(got, err)
	}
	was := got.Kvs[0].Value
	damaged := f(bytes.Clone(was))
	if bytes.Equal(was, damaged) {
		t.Fatalf("nothing is damaged in %q", was)
	}
	done, err := c.Txn(t.Context()).If(clientv3.Compare(clientv3.ModRevision(key), "=", got.Kvs[0].ModRevision)).
		Then(clientv3.OpPut(key, string(damaged))).Else(clientv3.OpGet(key)).Commit()
	if err != nil || !done.Succeeded {
		t.Fatal(done, err)
	}
}

// TestStartFailsOnDamageThatLasts: only the API server's own reads count, only those of its start, and only repeated ones.
func TestStartFailsOnDamageThatLasts(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		damaged := errors.New("damaged")
		as := func(name string) context.Context {
			return request.WithUser(t.Context(), &user.DefaultInfo{Name: name})
		}
		var d damage
		d.notice(as("somebody"), "/a", damaged)
		if d.found() != nil {
			t.Error("a client's request counts")
		}
		d.notice(as(user.APIServerUser), "/b", damaged)
		time.Sleep(damageLasts)
		d.notice(as(user.APIServerUser), "/c", errors.New("another"))
		if d.lasting() != nil {
			t.Error("a single read counts")
		}
		d.notice(t.Context(), "/b", damaged) // a watch cache's
		if got := d.lasting(); got != damaged {
			t.Errorf("it lasts: %v", got)
		}

		var ready damage
		ready.ignore()
		ready.notice(t.Context(), "/b", damaged)
		if ready.found() != nil {
			t.Error("damage counts after the start")
		}
	})
}
