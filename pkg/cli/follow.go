package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"github.com/reap-dev/reap/pkg/gc/report"
)

// follower watches objects until they are gone, on any cluster and with the caller's own rights. It may be used
// concurrently.
type follower struct {
	// all are the objects that it was given. They do not change.
	all sets.Set[types.UID]
	// mu protects what follows.
	mu   sync.Mutex
	left map[types.UID]*followed
	// silent is why the server does not answer at the moment, and since when it has not.
	silent error
	since  time.Time
	// lost is an error of a watch that no waiting mends.
	lost error
	// stalled is true while nothing goes. Then note is what the server says of its datastore.
	stalled bool
	note    string
}

type followed struct {
	object     report.Object
	seen       bool // by a watch, at least once
	deleting   bool
	finalizers []string
	owners     []types.UID // those among the objects that are followed
}

const (
	// watchedNamespaces is up to how many namespaces of one resource are watched one by one; of more all are.
	watchedNamespaces = 10
	// answersWithin is how long a server may be silent before the command gives up.
	answersWithin = time.Minute
	// pingEvery is how often it is asked whether it still answers: a watch does not tell.
	pingEvery = 2 * time.Second
)

// follow begins to watch objects until ctx ends, and returns once it knows which of them are there.
func (c *connection) follow(ctx context.Context, objects []report.Object) (*follower, error) {
	f := &follower{all: make(sets.Set[types.UID], len(objects)), left: make(map[types.UID]*followed, len(objects))}
	namespaces := map[schema.GroupResource][]string{}
	for _, o := range objects {
		f.all.Insert(o.UID)
		f.left[o.UID] = &followed{object: o}
		if r := namespaces[o.GroupResource()]; !slices.Contains(r, o.Namespace) && len(r) <= watchedNamespaces {
			namespaces[o.GroupResource()] = append(r, o.Namespace)
		}
	}
	client, err := metadata.NewForConfig(c.config)
	if err != nil {
		return nil, err
	}
	served, err := newServed(c.config)
	if err != nil {
		return nil, err
	}
	go wait.UntilWithContext(ctx, func(ctx context.Context) { f.ping(ctx, served) }, pingEvery)
	var synced []cache.InformerSynced
	for gr, in := range namespaces {
		gvr, err := served.mapper.ResourceFor(gr.WithVersion(""))
		if err != nil {
			return nil, c.failed(err)
		}
		if len(in) > watchedNamespaces {
			in = []string{metav1.NamespaceAll}
		}
		for _, namespace := range in {
			ready, err := f.watch(ctx, gr, client.Resource(gvr).Namespace(namespace))
			if err != nil {
				return nil, err
			}
			synced = append(synced, ready)
		}
	}
	for !f.synced(synced) {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if err, over := f.trouble(time.Now()); over {
			return nil, c.failed(err)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for uid, o := range f.left {
		if !o.seen {
			delete(f.left, uid)
		}
	}
	return f, nil
}

func (f *follower) synced(all []cache.InformerSynced) bool {
	return !slices.ContainsFunc(all, func(s cache.InformerSynced) bool { return !s() })
}

// ping asks the server whether it answers.
func (f *follower) ping(ctx context.Context, s *served) {
	ctx, cancel := context.WithTimeoutCause(ctx, answerWithin, fmt.Errorf("no answer within %s", answerWithin))
	defer cancel()
	err := s.cached.RESTClient().Get().AbsPath("/version").Do(ctx).Error()
	note := ""
	if err == nil && f.isStalled() {
		// Other servers have no such note, and may not answer.
		if answer, err := s.cached.RESTClient().Get().AbsPath("/readyz").Param("verbose", "").DoRaw(ctx); err == nil {
			note = storeNote(answer)
		}
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.note = note
	if f.silent == nil {
		f.since = time.Now()
	}
	f.silent = err
}

func (f *follower) isStalled() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stalled
}

// stalls says whether nothing goes, which the server is asked about then.
func (f *follower) stalls(stalled bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stalled = stalled
}

// storeNote returns what the server says of its datastore while nothing goes; "" if that is nothing.
func (f *follower) storeNote() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.note
}

// watch watches one resource. ready is true once all objects that were there have been noted.
func (f *follower) watch(ctx context.Context, gr schema.GroupResource, objects metadata.ResourceInterface) (ready cache.InformerSynced, err error) {
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return objects.List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return objects.Watch(ctx, o)
		},
	}, &metav1.PartialObjectMetadata{}, 0, nil)
	// What is not followed takes no more memory than its name.
	err = informer.SetTransform(func(o any) (any, error) {
		m, ok := o.(*metav1.PartialObjectMetadata)
		if !ok {
			return o, nil
		}
		small := &metav1.PartialObjectMetadata{}
		small.Namespace, small.Name, small.UID, small.ResourceVersion = m.Namespace, m.Name, m.UID, m.ResourceVersion
		small.DeletionTimestamp, small.Finalizers = m.DeletionTimestamp, m.Finalizers
		if f.all.Has(m.UID) {
			small.OwnerReferences = m.OwnerReferences
		}
		return small, nil
	})
	if err != nil {
		return nil, err
	}
	if err := informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) { f.fails(gr, err) }); err != nil {
		return nil, err
	}
	handle, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: f.shown,
		UpdateFunc: func(before, now any) {
			if was, is := uidOf(before), uidOf(now); was != is {
				f.gone(was) // another object has the name
			}
			f.shown(now)
		},
		DeleteFunc: func(o any) { f.gone(uidOf(o)) },
	})
	if err != nil {
		return nil, err
	}
	go informer.RunWithContext(ctx)
	return handle.HasSynced, nil
}

// uidOf returns the UID of an object of a watch, or of the last that was known of one whose end was missed.
func uidOf(o any) types.UID {
	if t, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = t.Obj
	}
	if m, ok := o.(*metav1.PartialObjectMetadata); ok {
		return m.UID
	}
	return ""
}

func (f *follower) shown(o any) {
	m, ok := o.(*metav1.PartialObjectMetadata)
	if !ok {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if k := f.left[m.UID]; k != nil {
		k.seen, k.deleting, k.finalizers, k.owners = true, m.DeletionTimestamp != nil, m.Finalizers, nil
		for _, ref := range m.OwnerReferences {
			if f.all.Has(ref.UID) {
				k.owners = append(k.owners, ref.UID)
			}
		}
	}
}

func (f *follower) gone(uid types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.left, uid)
}

// fails notes that a watch cannot go on. Whatever waiting can mend is tried again.
func (f *follower) fails(gr schema.GroupResource, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		f.lost = err
	case apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err):
		// Its definition has been deleted, and with that all objects.
		maps.DeleteFunc(f.left, func(_ types.UID, o *followed) bool { return o.object.GroupResource() == gr })
	}
}

// trouble returns why the server does not answer, or a watch cannot go on; nil if there is no such thing. over is true if
// there is no use in waiting any longer.
func (f *follower) trouble(now time.Time) (err error, over bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lost != nil {
		return f.lost, true
	}
	return f.silent, f.silent != nil && now.Sub(f.since) > answersWithin
}

// progress counts what is left, and names what holds it: objects that have been deleted and that a finalizer of neither
// the collector nor a namespace keeps, one of them at the least if there is any.
func (f *follower) progress() (left int, held []report.Holder, count int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range f.left {
		others := slices.DeleteFunc(slices.Clone(o.finalizers), func(name string) bool { return slices.Contains(collectorFinalizers, name) })
		if !o.deleting || len(others) == 0 {
			continue
		}
		count++
		if len(held) < heldShown {
			held = append(held, report.Holder{Object: o.object, Finalizers: others})
		}
	}
	return len(f.left), held, count
}

// kept counts the objects that are left and that nobody deletes: those whose DELETE was refused, and those that would have
// followed from them alone. All others are expected to go: those that are being deleted already, those whose DELETE was accepted
// (requested), and those whose owners in the plan are all gone or expected to go. The plan itself cannot tell: it names
// one cause of each object, where the object may have several owners. The contents of a namespace or definition count as
// kept until they are deleted; this ends no wait too early, because the namespace or definition goes last.
func (f *follower) kept(requested []report.Object) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	goes := sets.New[types.UID]()
	for _, o := range requested {
		goes.Insert(o.UID)
	}
	stays := func(uid types.UID) bool { return f.left[uid] != nil && !goes.Has(uid) }
	for grown := true; grown; {
		grown = false
		for uid, o := range f.left {
			if stays(uid) && (o.deleting || len(o.owners) > 0 && !slices.ContainsFunc(o.owners, stays)) {
				goes.Insert(uid)
				grown = true
			}
		}
	}
	kept := 0
	for uid := range f.left {
		if stays(uid) {
			kept++
		}
	}
	return kept
}

// heldShown is how many of what holds a cascade are named.
const heldShown = 3
