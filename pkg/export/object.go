package export

import (
	"encoding/json"
	"sync"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/scheme"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	clientgo "k8s.io/client-go/kubernetes/scheme"
	aggregation "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/scheme"

	"github.com/reap-dev/reap/pkg/datastore/dump"
)

// decoder knows all types of Kubernetes' own APIs, in the versions in which they are stored.
var decoder = sync.OnceValue(func() runtime.Decoder {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgo.AddToScheme, apiextensions.AddToScheme, aggregation.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err) // the types are compiled in
		}
	}
	return serializer.NewCodecFactory(scheme).UniversalDeserializer()
})

// describe returns which object a value is, and the object as JSON. Both are empty as far as the value cannot be decoded.
func describe(value []byte) (id dump.Identity, object json.RawMessage) {
	id, err := dump.Identify(value)
	if err != nil {
		return id, nil
	}
	switch dump.EncodingOf(value) {
	case dump.Protobuf:
		o, _, err := decoder().Decode(value, nil, nil)
		if err != nil {
			return id, nil
		}
		object, err = json.Marshal(o)
		if err != nil {
			return id, nil
		}
	case dump.CBOR:
		var o unstructured.Unstructured
		if direct.Unmarshal(value, &o.Object) != nil {
			return id, nil
		}
		id = dump.Identity{APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName()}
		if object, err = json.Marshal(o.Object); err != nil {
			return id, nil
		}
	case dump.JSON:
		object = value
	}
	if id.Kind == "" {
		return id, nil // a value of the datastore's own
	}
	return id, object
}
