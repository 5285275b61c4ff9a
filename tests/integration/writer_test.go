package integration

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

// writtenLabel is on the objects of writers with the number of the write.
const writtenLabel = testGroup + "/write"

// writer makes, changes and deletes objects one after the other, whether the server is there or not, and remembers which of its
// writes were acknowledged.
type writer struct {
	id     int
	c      clients
	ns     string
	random *rand.Rand

	last int // the number of its last write
	all  []*written
	open []*written // those that are there
	// versions are those of objects that the server has acknowledged.
	versions                 []stampOf
	acknowledged, unanswered int
}

// written is an object of a writer's.
type written struct {
	k    kind
	name string
	uid  types.UID // "" until its creation is acknowledged
	// write is the last one that was acknowledged. Of those in maybe, which came after it, nobody knows.
	write string
	maybe []string
	// A deletion was acknowledged; or it was not answered, so that the object may be there.
	deleted, maybeDeleted bool
}

// stampOf says which object a stamp is of.
type stampOf struct {
	k        kind
	ns, name string
	stamp
}

func newWriter(t *testing.T, kubeconfig, ns string, id int, random *rand.Rand) *writer {
	t.Helper()
	c, err := newClients(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return &writer{id: id, c: c, ns: ns, random: random}
}

// firstOf is the name of the ConfigMap that a writer makes first and never deletes.
func firstOf(id int) string { return fmt.Sprintf("of-writer-%d-1", id) }

// run writes until end is closed. No request is given up: what is acknowledged after it would not be sure to be the last write.
func (w *writer) run(ctx context.Context, end <-chan struct{}) {
	for {
		select {
		case <-end:
			return
		default:
		}
		if err := w.act(ctx); err == nil {
			w.acknowledged++
			continue
		}
		w.unanswered++
		// Without a limit: the test ends when the server does not come back.
		_ = wait.PollUntilContextCancel(ctx, poll, false, func(ctx context.Context) (bool, error) {
			return w.c.kube.Discovery().RESTClient().Get().AbsPath("/livez").Do(ctx).Error() == nil, nil
		})
	}
}

// act is one write. An error means that nobody knows whether it took place.
func (w *writer) act(ctx context.Context) error {
	w.last++
	switch n := w.random.IntN(10); {
	case len(w.open) < 2 || n < 2:
		return w.create(ctx)
	case n < 9:
		return w.change(ctx, w.open[w.random.IntN(len(w.open))])
	default:
		return w.delete(ctx, 1+w.random.IntN(len(w.open)-1))
	}
}

func (w *writer) create(ctx context.Context) error {
	m := &written{k: configMaps, name: fmt.Sprintf("of-writer-%d-%d", w.id, w.last)}
	if len(w.all)%2 == 1 {
		m.k = secrets
	}
	w.all = append(w.all, m)
	o := object(m.k, m.name)
	o.SetLabels(map[string]string{writtenLabel: w.number()})
	o, err := w.c.dyn.Resource(m.k.gvr).Namespace(w.ns).Create(ctx, o, metav1.CreateOptions{})
	if err != nil {
		m.maybe = []string{w.number()}
		return err
	}
	m.uid = o.GetUID()
	w.open = append(w.open, m)
	w.answered(m, o)
	return nil
}

func (w *writer) change(ctx context.Context, m *written) error {
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, writtenLabel, w.number())
	o, err := w.c.dyn.Resource(m.k.gvr).Namespace(w.ns).Patch(ctx, m.name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		m.maybe = append(m.maybe, w.number())
		return err
	}
	w.answered(m, o)
	return nil
}

func (w *writer) delete(ctx context.Context, i int) error {
	m := w.open[i]
	err := w.c.dyn.Resource(m.k.gvr).Namespace(w.ns).Delete(ctx, m.name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &m.uid}})
	w.open = slices.Delete(w.open, i, i+1)
	m.deleted = err == nil
	// An answer that there is no such object is one of a loss, which is to be seen in the end.
	m.maybeDeleted = err != nil && !apierrors.IsNotFound(err)
	return err
}

// number is the last write's.
func (w *writer) number() string { return strconv.Itoa(w.last) }

// answered notes what the server has acknowledged.
func (w *writer) answered(m *written, o metav1.Object) {
	m.write, m.maybe = w.number(), nil
	w.versions = append(w.versions, stampOf{m.k, w.ns, m.name, stampFor(o)})
}

// written returns what writers have left in a namespace, by kind and name.
func (s *server) written(t *testing.T, ns string) map[string]metav1.PartialObjectMetadata {
	t.Helper()
	there := map[string]metav1.PartialObjectMetadata{}
	for _, k := range []kind{configMaps, secrets} {
		list, err := s.meta.Resource(k.gvr).Namespace(ns).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range list.Items {
			if o.Name != rootCA {
				there[line(k.gvr.GroupResource(), ns, o.Name)] = o
			}
		}
	}
	return there
}

// losses takes a writer's objects out of those that are there, and says what is not as it was acknowledged.
func (w *writer) losses(there map[string]metav1.PartialObjectMetadata) (lines []string) {
	for _, m := range w.all {
		l := line(m.k.gvr.GroupResource(), w.ns, m.name)
		o, is := there[l]
		delete(there, l)
		write := o.Labels[writtenLabel]
		switch {
		case m.deleted && is:
			lines = append(lines, l+" was deleted, and is there")
		case m.deleted || !is && (m.uid == "" || m.maybeDeleted):
		case !is:
			lines = append(lines, fmt.Sprintf("%s is gone, and had been written as %s", l, m.write))
		case m.uid != "" && o.UID != m.uid:
			lines = append(lines, fmt.Sprintf("%s has the UID %s, and had %s", l, o.UID, m.uid))
		case write != m.write && !slices.Contains(m.maybe, write):
			lines = append(lines, fmt.Sprintf("%s is as write %q left it; acknowledged was %q, and not answered since %q", l, write, m.write, m.maybe))
		}
	}
	return lines
}

// TestWriterFindsLosses is about what a writer takes for a loss.
func TestWriterFindsLosses(t *testing.T) {
	t.Parallel()
	m := func(name, uid, write string, maybe ...string) *written {
		return &written{k: configMaps, name: name, uid: types.UID(uid), write: write, maybe: maybe}
	}
	w := &writer{ns: "ns", all: []*written{
		m("as-acknowledged", "u1", "1"), m("as-not-answered", "u2", "2", "3", "4"), m("never-acknowledged", "", "", "5"), m("never-made", "", "", "6"),
		m("set-back", "u7", "7"), m("gone", "u8", "8"), m("another", "u9", "9"),
		{k: configMaps, name: "deleted", uid: "u10", write: "10", deleted: true},
		{k: configMaps, name: "perhaps-deleted", uid: "u11", write: "11", maybeDeleted: true},
		{k: configMaps, name: "deleted-and-there", uid: "u12", write: "12", deleted: true},
	}}
	there := map[string]metav1.PartialObjectMetadata{}
	for name, is := range map[string][2]string{
		"as-acknowledged": {"u1", "1"}, "as-not-answered": {"u2", "3"}, "never-acknowledged": {"u5", "5"},
		"set-back": {"u7", "6"}, "another": {"u13", "9"}, "deleted-and-there": {"u12", "12"}, "unknown": {"u14", "1"},
	} {
		o := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(is[0]), Labels: map[string]string{writtenLabel: is[1]}}}
		there[line(configMaps.gvr.GroupResource(), "ns", name)] = o
	}
	want := []string{
		`configmaps ns/set-back is as write "6" left it; acknowledged was "7", and not answered since []`,
		"configmaps ns/gone is gone, and had been written as 8",
		"configmaps ns/another has the UID u13, and had u9",
		"configmaps ns/deleted-and-there was deleted, and is there",
	}
	if got := w.losses(there); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if rest := slices.Collect(maps.Keys(there)); !slices.Equal(rest, []string{"configmaps ns/unknown"}) {
		t.Errorf("nobody's are %q", rest)
	}
}
