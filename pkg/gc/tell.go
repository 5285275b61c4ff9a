package gc

import (
	"hash/maphash"
	"strings"
	"sync"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/lru"

	"github.com/reap-dev/reap/pkg/gc/act"
	"github.com/reap-dev/reap/pkg/gc/graph"
)

// teller tells users about objects: by an event in the object's namespace, and in the log,
// since a terminating namespace takes no events.
type teller struct {
	log *logrus.Entry

	// mu protects what follows.
	mu     sync.Mutex
	events *act.Events // while the collector runs
	told   *lru.Cache  // warnings that are given once; the oldest are forgotten
}

// namedObjects is how many of several objects are named to users.
const namedObjects = 5

// toldKept is how many warnings that are given once are remembered.
const toldKept = 10_000

func newTeller(log *logrus.Entry) *teller { return &teller{log: log, told: lru.New(toldKept)} }

// writeTo sets where events are written from now on.
func (t *teller) writeTo(events *act.Events) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events = events
}

func (t *teller) warn(r *graph.Resource, rec *graph.Record, e event, format string, args ...any) {
	t.log.WithFields(logrus.Fields{"resource": r.GroupResource().String(), "object": objectName(rec), "uid": string(rec.UID), "reason": e.reason}).Warnf(format, args...)
	t.mu.Lock()
	events := t.events
	t.mu.Unlock()
	if events != nil {
		events.Warn(r, rec, e.reason, format, args...)
	}
}

// warning is one that is given once. The reference is kept as its hash: it may be long. If two of one object had the same, the second
// warning would not be given.
type warning struct {
	uid types.UID
	ref uint64
}

var seed = maphash.MakeSeed()

// once warns about a reference, unless it has done so before.
func (t *teller) once(r *graph.Resource, rec *graph.Record, ref graph.Reference, e event, format string, args ...any) {
	w := warning{rec.UID, maphash.Comparable(seed, ref)}
	if _, told := t.told.Get(w); told {
		return
	}
	t.told.Add(w, nil)
	t.warn(r, rec, e, format, args...)
}

// names lists objects, of which there are more in all, for readers in a namespace.
func names(some []graph.Node, all int, namespace string) string {
	var list []string
	for _, n := range some {
		name := n.Record.Name
		if n.Record.Namespace != namespace {
			name = objectName(n.Record)
		}
		list = append(list, n.Key.Resource.String()+"/"+name)
	}
	if len(some) < all {
		list = append(list, "…")
	}
	return strings.Join(list, ", ")
}

// objectName is how an object is named in logs and events.
func objectName(rec *graph.Record) string {
	return cache.NewObjectName(rec.Namespace, rec.Name).String()
}
