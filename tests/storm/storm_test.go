// Package storm runs the real collector, with its informers, workers and queues, in random worlds in which users act and
// faults happen at the same time. It checks every write of the collector against the objects that existed.
package storm

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc"
	"github.com/reap-dev/reap/pkg/gc/decide"
	"github.com/reap-dev/reap/tests/fakeapi"
	"github.com/reap-dev/reap/tests/fakeapi/rig"
	"github.com/reap-dev/reap/tests/size"
)

var (
	stormTime = flag.Duration("storm.time", 10*time.Second, "how long to search random storms; -short takes a tenth, the long size ten times as long")
	stormSeed = flag.Uint64("storm.seed", 0, "try only the storm of this seed")
)

// outcomes are what a run reports to have seen. A search that never sees one of them tests nothing about it: from so many storms on it
// fails. At 0 it does not, since that outcome is too rare. Of 800 storms in twenty runs, each twenty had those at 20 in five storms or more,
// and each forty those at 40 in six or more.
var outcomes = []struct {
	what string
	from int
}{
	{"rounds", 20},
	{"deleted", 20},
	{"freed", 20}, // references that went
	{"released", 20},
	{"orphanings", 20},
	{"dropped", 20},       // references that went since their owner had, or waited
	{"forWaiting", 40},    // references of deleted objects, to an owner that waited
	{"misnamed", 20},      // references of deleted objects, to a UID that exists under another name or kind
	{"otherScope", 20},    // references of objects without a namespace, at rest, to kinds that have one
	{"keptByUnknown", 40}, // objects, at rest, of whose owners all are gone but those of unknown kinds
	{"held", 0},           // objects in foreground deletion, at rest
	{"conflicts", 20},     // writes of an object that had changed
	{"expired", 20},       // watches from before a compaction
	{"forbidden", 20},     // answers to calls of any kind
	{"refused", 0},        // of these, those to writes
	{"stops", 40},
	{"crashes", 40},
	{"stale", 40}, // starts of a collector that is shown what was
	{"wentBack", 40},
	{"beside", 40},  // storms with two collectors
	{"rescoped", 0}, // definitions that come back in another scope
	{"emptied", 0},  // resources of which lists show nothing
	{"lost", 0},     // resources of which events were lost
}

// TestStorms tries random worlds until its time is up. In each world the existing objects must justify every write. When
// the faults have ended, dangling objects must be gone, waiting objects must have a reason, and all others must exist.
//
// A seed says what users do and which faults there are. The order in which the collector's goroutines run is the
// scheduler's: a world that failed may have to be tried a few times.
func TestStorms(t *testing.T) {
	if *stormSeed != 0 {
		storm(t, *stormSeed)
		return
	}
	limit := size.Of(*stormTime/10, *stormTime, *stormTime*5)
	seed, worlds, total := uint64(time.Now().UnixNano()), 0, map[string]int{}
	for stop := time.Now().Add(limit); time.Now().Before(stop); worlds++ {
		for what, n := range storm(t, seed+uint64(worlds)) {
			total[what] += n
		}
		if t.Failed() {
			t.Fatalf("seed %d: go test ./tests/storm -run TestStorms -storm.seed=%d", seed+uint64(worlds), seed+uint64(worlds))
		}
	}
	seen := ""
	for _, o := range outcomes {
		seen += fmt.Sprintf(" %s=%d", o.what, total[o.what])
		if total[o.what] == 0 && o.from > 0 && worlds >= o.from {
			t.Errorf("%d storms have shown nothing of this: %s", worlds, o.what)
		}
	}
	size.Power(t, fmt.Sprintf("seed=%d worlds=%d", seed, worlds)+seen)
}

// storm tries one world, and counts its events.
func storm(t *testing.T, seed uint64) (counts map[string]int) {
	t.Helper()
	rig.InBubble(t, func(t *testing.T, r *rig.Rig) {
		s := &stormy{Rig: r, t: t, r: rand.New(rand.NewPCG(seed, 1)), judge: newJudge(t), denied: map[string]http.HandlerFunc{}, widgets: widgets}
		defer func() {
			if t.Failed() {
				t.Logf("seed %d:\n%s", seed, strings.Join(s.script, "\n"))
			}
		}()
		s.run()
		s.answers()
		counts = s.judge.counts
	})
	return counts
}

// stormy is one world.
type stormy struct {
	*rig.Rig
	t      *testing.T
	r      *rand.Rand
	judge  *judge
	other  *rig.Rig // a second collector; nil in most worlds
	sweeps bool     // without them, events that are lost and lists that lie may not be noticed
	script []string

	widgets fakeapi.Resource // as they are served, or were
	defined bool

	// mu protects what the server's goroutines read.
	mu     sync.Mutex
	denied map[string]http.HandlerFunc // by "verb resource", or "discover path"
	slow   int                         // milliseconds a call takes at the most
	ended  int                         // watches that goBack has ended
}

var widgets = fakeapi.Resource{Group: "example.com", Name: "widgets", Kind: "Widget", Namespaced: true}

var gizmos = fakeapi.Resource{Group: "aggregated.example.com", Name: "gizmos", Kind: "Gizmo", Versions: []string{"v1"}, Namespaced: true, Aggregated: true}

func (s *stormy) say(format string, args ...any) {
	s.script = append(s.script, fmt.Sprintf(format, args...))
}

func (s *stormy) chance(n, of int) bool { return s.r.IntN(of) < n }

func pick[T any](s *stormy, from ...T) T { return from[s.r.IntN(len(from))] }

func (s *stormy) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *stormy) run() {
	s.sweeps = s.chance(1, 3)
	s.widgets.Versions = []string{"v2", "v1"}
	s.define()
	s.Define(gizmos)
	s.SetPageSize(1 + s.r.IntN(10))
	for range 10 {
		s.user()
	}
	s.SetFault(s.fault)
	s.start()
	if s.chance(1, 4) {
		s.other = s.Beside()
		s.other.Start(s.options)
		defer func() { s.other.Stop() }()
		s.say("a second collector")
		s.judge.counts["beside"]++
	}
	for range 3 {
		s.round()
		if s.t.Failed() {
			return
		}
	}
}

func (s *stormy) options(o *gc.Options) {
	if s.sweeps {
		o.Resync = 20 * time.Second
	}
}

func (s *stormy) start() {
	s.say("start")
	s.Start(s.options)
	s.judge.restarted()
}

// round lets users and faults act, ends the faults, and judges the remaining objects.
func (s *stormy) round() {
	s.say("round")
	s.mu.Lock()
	s.slow = pick(s, 0, 5, 50, 3000)
	s.mu.Unlock()
	for range 8 + s.r.IntN(12) {
		if s.chance(1, 3) {
			s.weather()
		} else {
			s.user()
		}
		if s.chance(1, 2) {
			time.Sleep(time.Duration(s.r.IntN(pick(s, 10, 100, 5000))) * time.Millisecond)
		}
	}
	s.say("the faults end")
	s.mu.Lock()
	clear(s.denied)
	s.slow = 0
	s.mu.Unlock()
	s.LoseEvents(nil)
	s.SetStale(0)
	if !s.defined {
		s.define()
	}
	s.SetServed("widgets", true)
	s.rest()
	if s.other == nil && s.chance(1, 4) {
		s.goBack()
	}
}

func (s *stormy) rest() {
	s.Rest()
	// An owner that was read live, and that its monitor has never shown, is believed to be there for so long.
	time.Sleep(decide.RecheckMonitored + time.Second)
	s.Rest()
	if s.other != nil {
		s.other.Rest()
		s.Rest()
	}
	s.judge.look(s.Changes(s.judge.seen))
	s.judge.atRest(s.Server)
	s.judge.counts["rounds"]++
}

// goBack restores a backup: afterwards the collector knows of changes that have been undone.
func (s *stormy) goBack() {
	s.say("the store goes back")
	backup, at := s.Revision(), len(s.Changes(0))
	s.Pause(true)
	// Else nothing tells the store from what it was: objects of the aggregated server say nothing about the API server's store.
	own := func(c fakeapi.Change) bool { return !c.Resource.Aggregated }
	for s.Revision() < backup+5 || !slices.ContainsFunc(s.Changes(at), own) {
		s.user()
	}
	time.Sleep(5 * time.Minute) // each monitor watches by then; of what ended before nothing is read in a pause
	s.judge.look(s.Changes(s.judge.seen))
	s.Restore(backup)
	s.SetFault(func(c fakeapi.Call) http.HandlerFunc {
		if c.Verb == "watch" { // all is listed again
			s.mu.Lock()
			defer s.mu.Unlock()
			s.ended++
			return fakeapi.Fail(http.StatusGone, metav1.StatusReasonExpired)
		}
		return nil
	})
	s.DropWatches("")
	s.UntilStoreWentBack()
	s.SetFault(s.fault)
	s.judge.counts["wentBack"]++
	s.judge.rebuild(s.Changes(0)[:at])
	s.Pause(false)
	s.start()
	s.rest()
}

// fault answers in the server's place, or makes it slow.
func (s *stormy) fault(c fakeapi.Call) http.HandlerFunc {
	s.mu.Lock()
	slow := s.slow
	h := s.denied[c.Verb+" "+c.Resource]
	if c.Verb == "discover" {
		h = s.denied["discover "+c.Detail]
	}
	s.mu.Unlock()
	if slow > 0 {
		time.Sleep(time.Duration(rand.IntN(slow)) * time.Millisecond)
	}
	return h
}

// answers counts what the collectors were told.
func (s *stormy) answers() {
	for _, c := range s.Calls(0) {
		writes := c.Verb == "delete" || c.Verb == "patch"
		switch {
		case writes && c.Code == http.StatusConflict: // no fault says this
			s.judge.counts["conflicts"]++
		case c.Verb == "watch" && c.Code == http.StatusGone:
			s.judge.counts["expired"]++
		case c.Code == http.StatusForbidden:
			s.judge.counts["forbidden"]++
			if writes {
				s.judge.counts["refused"]++
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.judge.counts["expired"] -= s.ended
}

func (s *stormy) deny(what string, h http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.denied[what] != nil && s.chance(1, 2) {
		h = nil // it ends
	}
	s.denied[what] = h
	s.say("%s: fails: %v", what, h != nil)
}

func (s *stormy) refusal() http.HandlerFunc {
	return pick(s,
		fakeapi.Fail(http.StatusForbidden, metav1.StatusReasonForbidden), fakeapi.Fail(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable),
		fakeapi.Fail(http.StatusInternalServerError, metav1.StatusReasonInternalError), fakeapi.Later(1), http.HandlerFunc(fakeapi.NotServed),
		func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	)
}

var stormKinds = []string{"configmaps", "configmaps", "secrets", "pods", "deployments", "replicasets", "nodes", "widgets", "widgets", "gizmos"}

// weather changes the faults.
func (s *stormy) weather() {
	resource := pick(s, stormKinds...)
	switch s.r.IntN(12) {
	case 0, 1:
		s.deny(pick(s, "get", "list", "watch", "delete", "patch")+" "+resource, s.refusal())
	case 2:
		s.deny("discover "+pick(s, "apis/apps/v1", "apis/apps/v1beta1", "apis/example.com/v1", "apis/example.com/v2", "apis/aggregated.example.com/v1", "apis"), s.refusal())
	case 3, 4: // a gap
		for _, verb := range []string{"watch", "list"} {
			s.deny(verb+" "+resource, s.refusal())
		}
		s.DropWatches(resource)
		fallthrough
	case 5:
		s.say("drop the watches of %s", resource)
		s.DropWatches(resource)
		if s.chance(1, 2) {
			s.say("compact")
			s.Compact()
		}
	case 6, 7:
		s.kinds()
	case 8: // another server is down
		for _, verb := range []string{"get", "list", "watch", "delete", "patch"} {
			s.deny(verb+" gizmos", s.refusal())
		}
	case 9:
		how := pick(s, "stop", "crash")
		s.say("%s", how)
		if how == "stop" {
			s.Stop()
			s.judge.counts["stops"]++
		} else {
			s.Crash()
			s.judge.counts["crashes"]++
		}
		for range s.r.IntN(4) {
			s.user()
		}
		if s.chance(1, 2) && s.defined {
			now := s.Revision()
			then := max(1, now-int64(s.r.IntN(8)))
			s.SetStale(then)
			s.say("what is shown is old")
			if then < now {
				s.judge.counts["stale"]++
			}
		}
		s.start()
	case 10:
		if s.sweeps {
			s.deny("list "+resource, s.EmptyList)
			s.say("lists of %s that are answered are empty", resource)
			s.judge.lied[resource] = true
			s.judge.counts["emptied"]++
			s.Compact()
			s.DropWatches(resource)
		}
	case 11:
		if s.sweeps {
			s.say("events of %s are lost", resource)
			s.judge.counts["lost"]++
			s.LoseEvents(func(r *fakeapi.Resource, _ *metav1.ObjectMeta) bool { return r.Name == resource })
		}
	}
}

// kinds changes how widgets are served.
func (s *stormy) kinds() {
	if !s.defined {
		s.define()
		return
	}
	switch s.r.IntN(4) {
	case 0:
		s.say("widgets have gone")
		s.must(s.Delete("customresourcedefinitions", "", "widgets.example.com", metav1.DeleteOptions{}))
		s.defined = false
		was := s.widgets.Namespaced
		s.widgets.Namespaced = s.chance(1, 2)
		if s.widgets.Namespaced != was {
			s.judge.counts["rescoped"]++
		}
	case 1:
		served := s.chance(1, 2)
		s.say("widgets are served: %v", served)
		s.SetServed("widgets", served)
	default:
		s.define()
	}
}

func (s *stormy) define() {
	s.widgets.Versions = pick(s, []string{"v2", "v1"}, []string{"v1", "v2"}, []string{"v2"}, []string{"v1"})
	s.say("widgets are %v, namespaced: %v", s.widgets.Versions, s.widgets.Namespaced)
	s.Define(s.widgets)
	s.defined = true
}

// user does one thing that users do.
func (s *stormy) user() {
	objects := slices.DeleteFunc(s.Objects(), func(o fakeapi.Object) bool { return !slices.Contains(stormKinds, o.Resource.Name) })
	if len(objects) < 6 || s.chance(1, 2) {
		s.make(pick(s, stormKinds...), objects)
		return
	}
	o := pick(s, objects...)
	switch s.r.IntN(4) {
	case 0, 1: // deleted once: another policy would make a deletion another one
		if o.DeletionTimestamp != nil {
			return
		}
		policy := pick(s, metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan)
		s.say("delete %s %s %s", o.Resource.Name, o.Name, policy)
		_ = s.Delete(o.Resource.Name, o.Namespace, o.Name, metav1.DeleteOptions{PropagationPolicy: &policy}) // it may be gone by now
	case 2: // the name is used again at once
		if o.DeletionTimestamp == nil {
			s.say("make %s %s again", o.Resource.Name, o.Name)
			_ = s.Delete(o.Resource.Name, o.Namespace, o.Name, metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}) // likewise
			refs := s.references(o.Namespace, slices.DeleteFunc(objects, func(x fakeapi.Object) bool { return x.UID == o.UID }), nil)
			s.must(s.Create(o.Resource.Name, metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, OwnerReferences: refs}))
		}
	case 3:
		refs := s.references(o.Namespace, objects, &o)
		s.say("%s %s gets the owners %v", o.Resource.Name, o.Name, refs)
		_ = s.Update(o.Resource.Name, o.Namespace, o.Name, func(m *metav1.ObjectMeta) { m.OwnerReferences = refs }) // likewise
	}
}

func (s *stormy) make(resource string, objects []fakeapi.Object) {
	if resource == "widgets" && !s.defined {
		return
	}
	m := metav1.ObjectMeta{Namespace: pick(s, "ns", "ns", "other"), Name: fmt.Sprintf("%s-%d", resource, s.r.IntN(6))}
	if resource == "nodes" || resource == "widgets" && !s.widgets.Namespaced {
		m.Namespace = ""
	}
	if slices.ContainsFunc(objects, func(o fakeapi.Object) bool {
		return o.Resource.Name == resource && o.Namespace == m.Namespace && o.Name == m.Name
	}) {
		return
	}
	m.OwnerReferences = s.references(m.Namespace, objects, nil)
	s.say("make %s %s/%s, owners %v", resource, m.Namespace, m.Name, m.OwnerReferences)
	s.must(s.Create(resource, m))
}

// references draws owners among older objects, so that there are no rings, that nobody has deleted. Some references are wrong.
func (s *stormy) references(namespace string, objects []fakeapi.Object, of *fakeapi.Object) (refs []metav1.OwnerReference) {
	fit := slices.DeleteFunc(slices.Clone(objects), func(o fakeapi.Object) bool {
		return o.DeletionTimestamp != nil || o.Namespace != "" && o.Namespace != namespace || of != nil && !s.judge.older(s.Server, o.UID, of.UID)
	})
	for range pick(s, 0, 1, 1, 1, 2) {
		r := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "never", UID: types.UID(fmt.Sprintf("never-%d", s.r.Uint32()))}
		if len(fit) > 0 && !s.chance(1, 8) {
			o := pick(s, fit...)
			r = metav1.OwnerReference{Kind: o.Resource.Kind, Name: o.Name, UID: o.UID}
			r.APIVersion = pick(s, o.Resource.Versions...)
			if o.Resource.Group != "" {
				r.APIVersion = o.Resource.Group + "/" + r.APIVersion
			}
			switch s.r.IntN(12) {
			case 0:
				r.Name = "wrong"
			case 1:
				r.Kind = "Nothing"
			case 2:
				r.APIVersion = "example.com/v9"
			}
		}
		if slices.ContainsFunc(refs, func(had metav1.OwnerReference) bool { return had.UID == r.UID }) {
			continue
		}
		if s.chance(1, 2) {
			r.BlockOwnerDeletion = new(true)
		}
		refs = append(refs, r)
	}
	return refs
}
