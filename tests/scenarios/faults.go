package scenarios

import (
	"fmt"
	"net/http"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reap-dev/reap/tests/fakeapi"
	"github.com/reap-dev/reap/tests/fakeapi/rig"
)

// faults are the current faults, as far as they hide objects from the collector.
type faults struct {
	unreadable     map[string]bool // resources
	undiscoverable map[string]bool // groups
}

// hide reports whether a fault may keep objects of a resource out of the graph.
func (f *faults) hide(r *rig.Rig, res *fakeapi.Resource) bool {
	unknown := r.Collector().Graph().Catalog().Resource(res.GroupResource()) == nil
	return f.unreadable[res.Name] || f.undiscoverable[res.Group] && unknown
}

// begin makes the named faults last until the next step that names any:
//
//	none
//	unreadable RESOURCE      every list, watch and read of it is answered with 403
//	generic 404 RESOURCE     reads of its objects are answered with a 404 as of a proxy
//	empty list RESOURCE      lists of it are empty
//	undiscoverable GROUP     discovery of the group's versions fails
//	changing RESOURCE        every object is changed just before its delete
//	hidden pause             lists lack the pause's ConfigMap, and its watch shows its deletion
//	lost events RESOURCE     no watch ever shows the changes of its objects during the fault
//
// An object among quicker is updated just before its first delete.
func (f *faults) begin(r *rig.Rig, names []string, quicker []parsed) error {
	*f = faults{unreadable: map[string]bool{}, undiscoverable: map[string]bool{}}
	for _, res := range r.Resources() {
		r.Blind(res.Name, false)
	}
	r.Undiscoverable(false)
	r.LoseEvents(nil)
	r.HidePause(false)
	var all []fakeapi.Fault
	for _, name := range names {
		kind, what := name, ""
		if i := strings.LastIndexByte(name, ' '); i > 0 {
			kind, what = name[:i], name[i+1:]
		}
		var answer http.HandlerFunc
		var hit func(c fakeapi.Call) bool
		switch kind {
		case "none":
			continue
		case "unreadable":
			answer = fakeapi.Fail(http.StatusForbidden, "Forbidden")
			hit = func(c fakeapi.Call) bool { return c.Resource == what }
			r.Blind(what, true)
			f.unreadable[what] = true
		case "generic 404":
			answer = fakeapi.NotServed
			hit = func(c fakeapi.Call) bool { return c.Resource == what && c.Verb == "get" }
		case "empty list":
			answer = r.EmptyList
			hit = func(c fakeapi.Call) bool { return c.Resource == what && c.Verb == "list" }
		case "undiscoverable":
			answer = fakeapi.Fail(http.StatusServiceUnavailable, "ServiceUnavailable")
			hit = func(c fakeapi.Call) bool { return strings.HasPrefix(c.Detail, "apis/"+what+"/") }
			r.Undiscoverable(true)
			f.undiscoverable[what] = true
		case "lost events":
			r.LoseEvents(func(res *fakeapi.Resource, _ *metav1.ObjectMeta) bool { return res.Name == what })
			continue
		case "hidden":
			r.HidePause(true)
			continue
		case "changing":
			all = append(all, onDelete(func(c fakeapi.Call) {
				if c.Resource == what {
					_ = r.Ask(c.Resource, c.Namespace, c.Name) // one that is gone cannot change
				}
			}))
			continue
		default:
			return fmt.Errorf("%q is no fault", name)
		}
		all = append(all, func(c fakeapi.Call) http.HandlerFunc {
			if hit(c) {
				return answer
			}
			return nil
		})
	}
	for _, p := range quicker {
		var once sync.Once
		all = append(all, onDelete(func(c fakeapi.Call) {
			if c.Resource == p.resource && c.Namespace == p.meta.Namespace && c.Name == p.meta.Name {
				once.Do(func() { _ = update(r, p) }) // without it, the delete is no conflict
			}
		}))
	}
	r.SetFault(func(c fakeapi.Call) http.HandlerFunc {
		for _, fault := range all {
			if h := fault(c); h != nil {
				return h
			}
		}
		return nil
	})
	return nil
}

// onDelete does something before a delete takes effect.
func onDelete(do func(fakeapi.Call)) fakeapi.Fault {
	return func(c fakeapi.Call) http.HandlerFunc {
		if c.Verb == "delete" {
			do(c)
		}
		return nil
	}
}
