package gc

import (
	"sync"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// warn tells users about an object: by an event where it lives, and in the log,
// since a terminating namespace takes no events.
func (c *Collector) warn(r *graph.Resource, rec *graph.Record, reason, format string, args ...any) {
	c.log.WithFields(logrus.Fields{"resource": r.GroupResource().String(), "object": objectName(rec), "uid": string(rec.UID), "reason": reason}).Warnf(format, args...)
	if c.events != nil {
		c.events.Warn(r, rec, reason, format, args...)
	}
}

// warnOfWrongNamespaces tells users, once, of references that can never be right:
// a cluster-scoped object names an owner of a namespaced kind, or the owner lives
// in another namespace than its dependent.
func (a *attempt) warnOfWrongNamespaces() {
	for i := range a.view.Owners {
		o := &a.view.Owners[i]
		if o.Resource == nil || !o.Resource.Namespaced {
			continue
		}
		if a.view.Record.Namespace != "" && !o.Elsewhere {
			continue
		}
		if a.c.warned.before(a.view.Key.UID, o.Reference) {
			continue
		}
		a.c.warn(a.view.Resource, a.view.Record, "OwnerRefInvalidNamespace", "ownerRef [%s/%s, name: %s, uid: %s] does not exist in namespace %q",
			o.Reference.APIVersion, o.Reference.Kind, o.Reference.Name, o.Reference.UID, a.view.Record.Namespace)
	}
}

// warned remembers what users have been told; it is bounded, and the oldest is
// forgotten.
type warned struct {
	once sync.Once
	told *lru.Cache
}

type warning struct {
	uid types.UID
	ref graph.Reference
}

// before says whether users have been told before, and remembers that they are now.
func (w *warned) before(uid types.UID, ref graph.Reference) bool {
	w.once.Do(func() { w.told = lru.New(remembered) })
	if _, told := w.told.Get(warning{uid, ref}); told {
		return true
	}
	w.told.Add(warning{uid, ref}, nil)
	return false
}

func objectName(rec *graph.Record) string {
	if rec.Namespace == "" {
		return rec.Name
	}
	return rec.Namespace + "/" + rec.Name
}
