package integration

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// follower is an informer of client-go's with a connection of its own, and what its handler was told.
type follower struct {
	k        kind
	ns, name string // "" for all
	informer cache.SharedIndexInformer
	began    atomic.Int64 // how often it has asked for all objects, by a list or by a watch that begins with one
	first    int64        // how often until it had them

	mu     sync.Mutex // protects what follows
	there  map[string]stamp
	ended  map[types.UID]bool
	told   map[stamp]bool
	events int
	wrong  []string
	failed error // why it had to begin anew, the last time
}

// stamp is one version of one object.
type stamp struct {
	uid     types.UID
	version string
}

func stampFor(o metav1.Object) stamp { return stamp{o.GetUID(), o.GetResourceVersion()} }

func (f *follower) String() string {
	return strings.TrimRight(fmt.Sprintf("an informer of %s/%s/%s", f.k.gvr.Resource, f.ns, f.name), "/")
}

// follow starts an informer of a kind, in one namespace or of one name if f has it, until the test ends.
func follow(t *testing.T, kubeconfig string, f *follower) *follower {
	t.Helper()
	c, err := newClients(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	f.init()
	client := c.dyn.Resource(f.k.gvr).Namespace(f.ns)
	f.informer = cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			if o.Continue == "" {
				f.began.Add(1)
			}
			return client.List(ctx, f.only(o))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			if o.SendInitialEvents != nil && *o.SendInitialEvents {
				f.began.Add(1)
			}
			return client.Watch(ctx, f.only(o))
		},
	}, &unstructured.Unstructured{}, 0, cache.Indexers{})
	err = f.informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.failed = err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.informer.AddEventHandler(f); err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	running.Go(func() { f.informer.RunWithContext(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	await(t, f.String()+" to have all objects", func(context.Context) (bool, any) { return f.informer.HasSynced(), f.began.Load() })
	f.first = f.began.Load()
	return f
}

func (f *follower) init() {
	f.there, f.ended, f.told = map[string]stamp{}, map[types.UID]bool{}, map[stamp]bool{}
}

// only selects what it follows.
func (f *follower) only(o metav1.ListOptions) metav1.ListOptions {
	if f.name != "" {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, f.name).String()
	}
	return o
}

// relists is how often it has begun anew: what came and went meanwhile it cannot have seen.
func (f *follower) relists() int { return int(f.began.Load() - f.first) }

// OnAdd is told of an object that was not there.
func (f *follower) OnAdd(now any, _ bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := keyOf(now)
	if was, there := f.there[key]; there {
		f.reject("%s is added as %v, and was there as %v", key, stampFor(now.(metav1.Object)), was)
	}
	f.show(key, now.(metav1.Object))
}

// OnUpdate is told of another version of an object. If the informer lists anew, it is told of every object once more, also in the
// version that it had, and of another object of the name whose former one's end it has missed.
func (f *follower) OnUpdate(old, now any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := keyOf(now)
	was, is := stampFor(old.(metav1.Object)), stampFor(now.(metav1.Object))
	if f.there[key] != was {
		f.reject("%s is updated from %v, and was %v", key, was, f.there[key])
	}
	if was.uid != is.uid {
		f.ended[was.uid] = true
	}
	before, errBefore := strconv.ParseUint(was.version, 10, 64)
	after, errAfter := strconv.ParseUint(is.version, 10, 64)
	again := was == is && f.relists() > 0
	if after <= before && !again || errBefore != nil || errAfter != nil {
		f.reject("%s goes from %v back to %v", key, was, is)
	}
	f.show(key, now.(metav1.Object))
}

// OnDelete is told of the end of an object, perhaps by a list in which it is missing.
func (f *follower) OnDelete(last any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events++
	key := keyOf(last)
	was, there := f.there[key]
	if d, ok := last.(cache.DeletedFinalStateUnknown); ok {
		last = d.Obj // may be nil
	}
	if o, ok := last.(metav1.Object); !there || ok && o.GetUID() != was.uid {
		f.reject("%s is deleted, and was %v", key, was)
	}
	f.ended[was.uid] = true
	delete(f.there, key)
}

// keyOf is what a store has an object under, or the last that it knows of one.
func keyOf(o any) string {
	if d, ok := o.(cache.DeletedFinalStateUnknown); ok {
		return d.Key
	}
	return cache.MetaObjectToName(o.(metav1.Object)).String()
}

func (f *follower) show(key string, o metav1.Object) {
	f.events++
	is := stampFor(o)
	if f.ended[is.uid] {
		f.reject("%s is shown as %v after its end", key, is)
	}
	f.there[key], f.told[is] = is, true
}

func (f *follower) reject(format string, args ...any) {
	f.wrong = append(f.wrong, fmt.Sprintf(format, args...))
}

// mustCatchUp waits until its store, and what its handler was told, are what a list shows.
func (f *follower) mustCatchUp(t *testing.T, s *server) {
	t.Helper()
	await(t, f.String()+" to hold what a list shows", func(ctx context.Context) (bool, any) {
		list, err := s.meta.Resource(f.k.gvr).Namespace(f.ns).List(ctx, f.only(metav1.ListOptions{}))
		if err != nil {
			return false, err
		}
		want := map[string]string{}
		for i := range list.Items {
			o := &list.Items[i]
			want[keyOf(o)] = fmt.Sprint(stampFor(o))
		}
		lines := f.differs(want)
		return len(lines) == 0, fmt.Sprintf("%d differences: %q (last error: %v)", len(lines), lines[:min(5, len(lines))], f.lastError())
	})
}

func (f *follower) lastError() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}

// differs says where its store, or what its handler was told, is not what is wanted.
func (f *follower) differs(want map[string]string) (lines []string) {
	stored, told := map[string]string{}, map[string]string{}
	for _, o := range f.informer.GetStore().List() {
		stored[keyOf(o)] = fmt.Sprint(stampFor(o.(metav1.Object)))
	}
	f.mu.Lock()
	for key, is := range f.there {
		told[key] = fmt.Sprint(is)
	}
	f.mu.Unlock()
	for _, l := range difference(stored, want) {
		lines = append(lines, "stored "+l)
	}
	for _, l := range difference(told, want) {
		lines = append(lines, "told "+l)
	}
	return lines
}

// mustBeInOrder reports every event that did not fit those before it.
func (f *follower) mustBeInOrder(t *testing.T) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range f.wrong {
		t.Errorf("%s: %s", f, l)
	}
}

// mustHaveSeen checks that it has shown all these versions that it follows, unless it had to begin anew.
func (f *follower) mustHaveSeen(t *testing.T, versions []stampOf) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.relists() > 0 {
		return
	}
	for _, v := range versions {
		follows := v.k == f.k && (f.ns == "" || f.ns == v.ns) && (f.name == "" || f.name == v.name)
		if follows && !f.told[v.stamp] {
			t.Errorf("%s has never shown %s as %v", f, v.name, v.stamp)
		}
	}
}

// TestFollowerFindsWrongEvents is about what it takes for an event too many or too few.
func TestFollowerFindsWrongEvents(t *testing.T) {
	t.Parallel()
	o := func(uid, version string) *unstructured.Unstructured {
		o := object(configMaps, "a")
		o.SetUID(types.UID(uid))
		o.SetResourceVersion(version)
		return o
	}
	type event func(*follower)
	add := func(uid, version string) event { return func(f *follower) { f.OnAdd(o(uid, version), false) } }
	update := func(uidOld, old, uid, version string) event {
		return func(f *follower) { f.OnUpdate(o(uidOld, old), o(uid, version)) }
	}
	remove := func(uid, version string) event { return func(f *follower) { f.OnDelete(o(uid, version)) } }
	missing := func(uid, version string) event {
		return func(f *follower) { f.OnDelete(cache.DeletedFinalStateUnknown{Key: "a", Obj: o(uid, version)}) }
	}
	anew := func(f *follower) { f.began.Add(1) }
	for name, tc := range map[string]struct {
		events []event
		wrong  string
	}{
		"Life":               {[]event{add("u", "1"), update("u", "1", "u", "2"), remove("u", "3"), add("v", "4")}, ""},
		"Replacement":        {[]event{add("u", "1"), update("u", "1", "v", "3"), remove("v", "4")}, ""},
		"MissingInAList":     {[]event{add("u", "1"), missing("u", "1"), add("v", "3")}, ""},
		"AddedTwice":         {[]event{add("u", "1"), add("v", "2")}, "a is added as {v 2}, and was there as {u 1}"},
		"UpdateMissed":       {[]event{add("u", "1"), update("u", "2", "u", "3")}, "a is updated from {u 2}, and was {u 1}"},
		"Back":               {[]event{add("u", "10"), update("u", "10", "u", "9")}, "a goes from {u 10} back to {u 9}"},
		"ListedAgain":        {[]event{add("u", "10"), anew, update("u", "10", "u", "10")}, ""},
		"BackInAList":        {[]event{add("u", "10"), anew, update("u", "10", "u", "9")}, "a goes from {u 10} back to {u 9}"},
		"Twice":              {[]event{add("u", "10"), update("u", "10", "u", "10")}, "a goes from {u 10} back to {u 10}"},
		"DeletedTwice":       {[]event{add("u", "1"), remove("u", "2"), remove("u", "2")}, "a is deleted, and was { }"},
		"AnotherDeleted":     {[]event{add("u", "1"), remove("v", "2")}, "a is deleted, and was {u 1}"},
		"AddedAfterItsEnd":   {[]event{add("u", "1"), remove("u", "2"), add("u", "1")}, "a is shown as {u 1} after its end"},
		"UpdatedAfterItsEnd": {[]event{add("u", "1"), update("u", "1", "v", "2"), update("v", "2", "u", "3")}, "a is shown as {u 3} after its end"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &follower{}
			f.init()
			for _, tell := range tc.events {
				tell(f)
			}
			if got := strings.Join(f.wrong, "\n"); got != tc.wrong {
				t.Errorf("got %q, want %q", got, tc.wrong)
			}
		})
	}
}
