package manifest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// decode reads the objects of a file with the decoders that kubectl uses, in the order of the text. An error begins with the place
// in the file, to stand after its name.
func (f *File) decode(ctx context.Context) ([]Object, error) {
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(f.text), lookahead)
	places := newDocuments(f.text)
	var all []Object
	for number := 1; ; number++ {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		in := places.next()
		if !places.json {
			if err := checkAliases(f.text[in.from:in.to]); err != nil {
				return nil, fmt.Errorf(", document %d (line %d): %w", number, line(f.text, f.begin(in)), err)
			}
		}
		var document runtime.RawExtension
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, f.syntaxError(err, in, number)
		}
		raw := bytes.TrimSpace(document.Raw)
		if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
			continue
		}
		objects, err := objectsOf(raw)
		if err != nil {
			return nil, fmt.Errorf(", document %d (line %d): %w", number, line(f.text, f.begin(in)), err)
		}
		for i, o := range objects {
			all = append(all, Object{Unstructured: o, File: f, in: in, index: i, of: len(objects), changes: changes{}})
		}
	}
}

// begin returns where the content of a document begins: after white space, and after the line that separates it from another.
func (f *File) begin(in piece) int {
	text := f.text[in.from:in.to]
	if bytes.HasPrefix(text, []byte("---")) {
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	return in.to - len(bytes.TrimLeft(text, " \t\r\n"))
}

// objectsOf returns the object in a JSON document, or those of a list. Its errors never quote the document.
func objectsOf(raw []byte) ([]*unstructured.Unstructured, error) {
	if raw[0] != '{' {
		return nil, errors.New("it is not an object: a manifest is a mapping with apiVersion and kind")
	}
	decoded, _, err := unstructured.UnstructuredJSONScheme.Decode(raw, nil, nil)
	if err != nil {
		return nil, decodingError(err)
	}
	// As kubectl does: the accessors pass over fields of the wrong type.
	if err := utiljson.Unmarshal(raw, &metav1.PartialObjectMetadata{}); err != nil {
		return nil, metadataError(err)
	}
	switch o := decoded.(type) {
	case *unstructured.Unstructured:
		return []*unstructured.Unstructured{o}, nil
	case *unstructured.UnstructuredList:
		items := make([]*unstructured.Unstructured, len(o.Items))
		for i := range o.Items {
			items[i] = &o.Items[i]
			switch {
			case items[i].IsList():
				return nil, fmt.Errorf("item %d of the list is a list itself, which kubectl does not read", i+1)
			case items[i].GetKind() == "":
				return nil, fmt.Errorf("item %d of the list has no kind", i+1)
			case items[i].GroupVersionKind().Version == "":
				return nil, fmt.Errorf("item %d of the list has no apiVersion", i+1)
			}
		}
		return items, nil
	}
	return nil, fmt.Errorf("it is decoded to a %T, which is no object", decoded)
}
