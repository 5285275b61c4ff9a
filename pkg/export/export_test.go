package export

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	clientgo "k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/reap-dev/reap/pkg/datastore/dump"
)

// records is a store.
type records []dump.Record

func (r records) Read(_ context.Context, begin func(dump.Head) error, each func(dump.Record) error) error {
	err := begin(dump.Head{Revision: 70, Keys: int64(len(r))})
	for _, record := range r {
		err = errors.Join(err, each(record))
	}
	return err
}

// stored is an object as the API server stores it.
func stored(t *testing.T, o runtime.Object) []byte {
	t.Helper()
	raw, err := runtime.Encode(protobuf.NewSerializer(clientgo.Scheme, clientgo.Scheme), o)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestEachValueIsSaidAsItIsStored(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "shop", Name: "a<b"}
	widget := `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w","namespace":"shop"},"spec":{"text":"<&>"}}`
	inCBOR, err := direct.Marshal(map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "c", "namespace": "shop"}})
	if err != nil {
		t.Fatal(err)
	}
	unknown, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "new.k8s.io/v9", Kind: "New"}}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		value  []byte
		is     dump.Identity
		object string // a part of it; "" for none
	}{
		"protobuf": {
			stored(t, &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: meta, Data: map[string]string{"k": "v"}}),
			dump.Identity{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "a<b"}, `"data":{"k":"v"}`,
		},
		"a CustomResourceDefinition": {
			stored(t, &apiextensionsv1.CustomResourceDefinition{TypeMeta: metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
				ObjectMeta: metav1.ObjectMeta{Name: "w.example.com"}, Spec: apiextensionsv1.CustomResourceDefinitionSpec{Group: "example.com"}}),
			dump.Identity{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition", Name: "w.example.com"}, `"group":"example.com"`,
		},
		"an APIService": {
			stored(t, &apiregistrationv1.APIService{TypeMeta: metav1.TypeMeta{APIVersion: "apiregistration.k8s.io/v1", Kind: "APIService"},
				ObjectMeta: metav1.ObjectMeta{Name: "v1."}, Spec: apiregistrationv1.APIServiceSpec{Version: "v1"}}),
			dump.Identity{APIVersion: "apiregistration.k8s.io/v1", Kind: "APIService", Name: "v1."}, `"version":"v1"`,
		},
		"JSON":            {[]byte(widget + "\n"), dump.Identity{APIVersion: "example.com/v1", Kind: "Widget", Namespace: "shop", Name: "w"}, widget},
		"CBOR":            {append([]byte("\xd9\xd9\xf7"), inCBOR...), dump.Identity{APIVersion: "example.com/v1", Kind: "Widget", Namespace: "shop", Name: "c"}, `"name":"c"`},
		"an unknown type": {append([]byte("k8s\x00"), unknown...), dump.Identity{APIVersion: "new.k8s.io/v9", Kind: "New"}, ""},
		"encrypted":       {[]byte("k8s:enc:aescbc:v1:key:\x01\x02"), dump.Identity{}, ""},
		"of its own":      {[]byte("2026-11-23T00:00:00Z"), dump.Identity{}, ""},
		"nothing":         {nil, dump.Identity{}, ""},
	} {
		var out bytes.Buffer
		head, err := JSONLines(t.Context(), &out, records{
			{Key: []byte("/registry/x"), Value: tc.value, CreateRevision: 5, ModRevision: 7, TTL: time.Hour},
			{Key: []byte("/registry/y"), Value: []byte("{}"), ModRevision: 9, Version: 2},
		}, func(int64, int64) {})
		if err != nil || head != (dump.Head{Revision: 70, Keys: 2}) {
			t.Fatalf("%s: %+v, %v", name, head, err)
		}
		lines := bufio.NewScanner(&out)
		lines.Scan()
		var l Line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			t.Fatalf("%s: %v: %s", name, err, lines.Text())
		}
		if l.Key != "/registry/x" || !bytes.Equal(l.Value, tc.value) || l.CreateRevision != 5 || l.ModRevision != 7 || l.TTLSeconds != 3600 || l.Version != 0 {
			t.Errorf("%s: %+v", name, l)
		}
		if l.Identity != tc.is || (tc.object == "") != (l.Object == nil) || !strings.Contains(string(l.Object), tc.object) {
			t.Errorf("%s: it is %+v, %s", name, l.Identity, l.Object)
		}
		if !lines.Scan() || !strings.Contains(lines.Text(), `"version":2`) || strings.Contains(lines.Text(), "ttlSeconds") || lines.Scan() {
			t.Errorf("%s: the second line is %q", name, lines.Text())
		}
	}
}

// TestExportEndsWithItsStore: what cannot be read whole is no shorter export.
func TestExportEndsWithItsStore(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := JSONLines(ctx, &bytes.Buffer{}, records{{Key: []byte("/a")}}, func(int64, int64) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
