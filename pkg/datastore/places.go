package datastore

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/reap-dev/reap/pkg/datastore/dump"
	"github.com/reap-dev/reap/pkg/datastore/intact"
)

// places holds the key below which the API server keeps the objects of each kind. It makes a key of that, the namespace and the
// name, which the object says as well.
type places map[schema.GroupKind]string

// maxKinds bounds the memory that the places take.
const maxKinds = 20_000

// Values checks the values of a dump, one after the other. The zero value can be used.
type Values struct{ places places }

// Check returns an error that says what is wrong with a record's value.
func (v *Values) Check(r dump.Record) error {
	if v.places == nil {
		v.places = places{}
	}
	if what := v.places.wrong(string(r.Key), r.Value); what != "" {
		return fmt.Errorf("%q: %s", r.Key, what)
	}
	if len(v.places) > maxKinds {
		return fmt.Errorf("%q: it is of the %dth kind", r.Key, len(v.places))
	}
	return nil
}

// wrong says what is wrong with a value or its key, without naming the key; "" is nothing. Encrypted values and those without a name tell nothing.
func (p places) wrong(key string, value []byte) string {
	id, err := dump.Identify(value)
	if err == nil {
		err = intact.Value(value)
	}
	if err != nil {
		if strings.HasPrefix(key, "/registry/") {
			return fmt.Sprintf("its value cannot be decoded: %v", err)
		}
		return "" // somebody else's
	}
	if id.Kind == "" || id.Name == "" {
		return ""
	}
	name := "/" + id.Name
	if id.Namespace != "" {
		name = "/" + id.Namespace + name
	}
	place, fits := strings.CutSuffix(key, name)
	if !fits {
		return fmt.Sprintf("it holds the %s %s", id.Kind, name[1:])
	}
	kind := schema.FromAPIVersionAndKind(id.APIVersion, id.Kind).GroupKind()
	switch known, ok := p[kind]; {
	case !ok:
		p[kind] = place
	case known != place:
		return fmt.Sprintf("it holds a %s, and another one is below %s", kind, known)
	}
	return ""
}
