package intact

import (
	"bytes"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// protobuf is what values begin with that the API server encodes so.
var protobuf = []byte("k8s\x00")

// Value decodes a stored value as the API server does, and checks the object. Of kinds that are not Kubernetes' own it decodes the metadata. It
// takes every value that is not protobuf: JSON is a custom resource, whose fields its definition tells, and an encrypted one tells nothing.
func Value(value []byte) error {
	raw, encoded := bytes.CutPrefix(value, protobuf)
	if !encoded {
		return nil
	}
	var envelope runtime.Unknown
	if err := envelope.Unmarshal(raw); err != nil {
		return err
	}
	o, err := scheme.Scheme.New(envelope.GroupVersionKind())
	if err != nil {
		o = &metav1.PartialObjectMetadata{}
	}
	if decoder, ok := o.(interface{ Unmarshal(raw []byte) error }); ok {
		if err := decoder.Unmarshal(envelope.Raw); err != nil {
			return err
		}
	}
	return Check(o)
}
