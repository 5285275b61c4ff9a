package graph

import (
	"strings"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Finalizers holds the names of the finalizers of an object that is being deleted, but for the collector's own. The zero value is
// none. Equal lists are kept once, for as long as a Record holds them: a controller's finalizer is on thousands of objects.
type Finalizers struct{ names unique.Handle[string] }

const (
	// finalizersKept and longestFinalizer bound what one object takes: its author chooses the names. A valid name has up to 317
	// bytes; of longer ones nothing is kept.
	finalizersKept   = 4
	longestFinalizer = 320
	// separator stands in no valid name.
	separator = "\x00"
)

// FinalizersOf keeps the first few names, without the collector's own.
func FinalizersOf(names []string) Finalizers {
	var kept []string
	for _, f := range names {
		if f == metav1.FinalizerDeleteDependents || f == metav1.FinalizerOrphanDependents || len(f) > longestFinalizer || strings.Contains(f, separator) {
			continue
		}
		if kept = append(kept, f); len(kept) == finalizersKept {
			break
		}
	}
	if len(kept) == 0 {
		return Finalizers{}
	}
	return Finalizers{unique.Make(strings.Join(kept, separator))}
}

// Names returns them in the order of the object.
func (f Finalizers) Names() []string {
	if f == (Finalizers{}) {
		return nil
	}
	return strings.Split(f.names.Value(), separator)
}
