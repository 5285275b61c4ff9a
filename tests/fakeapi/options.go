package fakeapi

import (
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DeleteOptions reads the body of a deletion, JSON or protobuf, as the API server does.
func DeleteOptions(body []byte) (*metav1.DeleteOptions, error) {
	o, byDefault := &metav1.DeleteOptions{}, metav1.SchemeGroupVersion.WithKind("DeleteOptions")
	if len(body) == 0 {
		return o, nil
	}
	into, _, err := scheme.Codecs.DecoderToVersion(scheme.Codecs.UniversalDeserializer(), byDefault.GroupVersion()).Decode(body, &byDefault, o)
	if err == nil && into != o {
		err = errors.New("the body of a deletion holds something else than options")
	}
	return o, err
}
