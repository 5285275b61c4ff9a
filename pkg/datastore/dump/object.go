package dump

import (
	"bytes"
	"encoding/json"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Encoding is how a value is written.
type Encoding int

// The encodings of the API server's values.
const (
	JSON Encoding = iota
	Protobuf
	CBOR
	Encrypted
)

// The first bytes of what the API server stores.
var prefixes = map[Encoding][]byte{Protobuf: []byte("k8s\x00"), Encrypted: []byte("k8s:enc:"), CBOR: []byte("\xd9\xd9\xf7")}

// EncodingOf returns how a value says that it is written. Whatever says nothing counts as JSON.
func EncodingOf(value []byte) Encoding {
	for encoding, prefix := range prefixes {
		if bytes.HasPrefix(value, prefix) {
			return encoding
		}
	}
	return JSON
}

// Identity says which object a value is. Its fields are empty as far as the value does not say, or is encrypted.
type Identity struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name,omitempty"`
}

// Identify returns which object a value is, without knowing its type, or an error unless the value is one that the API
// server can have stored. It does not look into encrypted values, nor into CBOR.
func Identify(value []byte) (id Identity, err error) {
	switch EncodingOf(value) {
	case Protobuf:
		var envelope runtime.Unknown
		if err := envelope.Unmarshal(value[len(prefixes[Protobuf]):]); err != nil {
			return id, err
		}
		if envelope.Kind == "" {
			return id, errors.New("it has no kind")
		}
		// The metadata is the first field of every object, and the others are left as they are.
		var o metav1.PartialObjectMetadata
		if err := o.Unmarshal(envelope.Raw); err != nil {
			return id, err
		}
		return Identity{envelope.APIVersion, envelope.Kind, o.Namespace, o.Name}, nil
	case CBOR, Encrypted:
		return id, nil
	}
	if !json.Valid(value) {
		return id, errors.New("it is neither protobuf nor JSON")
	}
	var o metav1.PartialObjectMetadata
	if err := json.Unmarshal(value, &o); err != nil {
		return id, nil // JSON, but no object
	}
	return Identity{o.APIVersion, o.Kind, o.Namespace, o.Name}, nil
}
