package differential

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"golang.org/x/sync/errgroup"

	"github.com/reap-dev/reap/tests/size"
)

const (
	// seedVariable repeats a run; worldsVariable makes it longer.
	seedVariable   = "REAP_TEST_SEED"
	worldsVariable = "REAP_TEST_WORLDS"
	worldsByNature = 80
	// partedAtMost bounds how many worlds may develop differently: one in partedAtMost. Of eighty, four to seven do, by their seed.
	partedAtMost = 4
)

// side is a server with the worlds on it.
type side struct {
	*server
	uids    [][]types.UID // by world and object
	barrier int           // how many times
	history *history
}

// barriers is the namespace of what mustWork and catchUp make.
const barriers = "barrier"

func number(t *testing.T, variable string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestBothCollectorsDoTheSame creates the same worlds on both servers and deletes objects one after the other. After
// each deletion it waits until both collectors are done, and compares the worlds.
func TestBothCollectorsDoTheSame(t *testing.T) {
	seed := number(t, seedVariable, uint64(time.Now().UnixNano()))
	t.Logf("%s=%d", seedVariable, seed)
	var worlds []*world
	for i := range int(number(t, worldsVariable, worldsByNature)) {
		worlds = append(worlds, newWorld(i, rand.New(rand.NewPCG(seed, uint64(i)))))
	}
	ours, theirs := &side{server: start(t, "reap")}, &side{server: start(t, "upstream", "--disable=gc")}
	runUpstream(t, theirs.server)
	sides := []*side{ours, theirs}
	each := func(do func(s *side, w *world) error) {
		t.Helper()
		g := errgroup.Group{}
		for _, s := range sides {
			perServer := make(chan struct{}, 4)
			for _, w := range worlds {
				g.Go(func() error {
					perServer <- struct{}{}
					defer func() { <-perServer }()
					return do(s, w)
				})
			}
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
	}

	for _, s := range sides {
		s.uids = make([][]types.UID, len(worlds))
	}
	for _, s := range sides {
		s.mustWork(t) // before that, nothing is known of its collector
		s.watchAll(t)
	}
	each(func(s *side, w *world) error { return s.make(t.Context(), w) })
	different := map[*world]bool{} // the worlds that went different ways, as they may
	told := map[string]bool{}
	var held []*rules
	for _, w := range worlds {
		held = append(held, &rules{side: ours, w: w, asked: map[int][]metav1.DeletionPropagation{}})
	}
	compare := func(when string) {
		t.Helper()
		permitted := settle(t, when, ours, theirs, held, different)
		for _, r := range held {
			if bad := r.judge(); len(bad) > 0 {
				t.Fatalf("%s: reap has done what it may not:\n%s  %s", when, r.w, strings.Join(bad, "\n  "))
			}
		}
		for w, reasons := range permitted {
			if text := fmt.Sprintf("world %d: %s", w.number, strings.Join(reasons, "; ")); !told[text] {
				told[text] = true
				t.Logf("%s: %s", when, text)
			}
		}
	}
	compare("made")
	for round := range 4 {
		for _, r := range held {
			if !different[r.w] && round < len(r.w.deletes) {
				d := r.w.deletes[round]
				r.asked[d.object] = append(r.asked[d.object], d.policy)
			}
		}
		each(func(s *side, w *world) error {
			if different[w] || round >= len(w.deletes) {
				return nil
			}
			d := w.deletes[round]
			o := w.objects[d.object]
			err := s.dyn.Resource(o.kind.gvr).Namespace(o.ns).Delete(t.Context(), o.name, metav1.DeleteOptions{
				PropagationPolicy: &d.policy, Preconditions: &metav1.Preconditions{UID: &s.uids[w.number][d.object]},
			})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		})
		compare(fmt.Sprintf("deletion %d", round))
	}
	all, left := 0, 0
	now, err := ours.look(t.Context(), worlds)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range worlds {
		all += len(w.objects)
		left += len(now[w.number])
	}
	t.Logf("%d worlds of %d objects, of which %d are left; %d worlds went different ways, as they may", len(worlds), all, left, len(different))
	size.Power(t, fmt.Sprintf("seed=%d worlds=%d objects=%d different=%d", seed, len(worlds), all, len(different)))
	if len(worlds) >= worldsByNature && len(different) > len(worlds)/partedAtMost {
		t.Errorf("%d of %d worlds went different ways: the comparison is blind to them from then on", len(different), len(worlds))
	}
}

func (s *side) namespace(ctx context.Context, name string) error {
	ns := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}}
	_, err := s.dyn.Resource(namespaces.gvr).Create(ctx, ns, metav1.CreateOptions{})
	return err
}

// make makes a world.
func (s *side) make(ctx context.Context, w *world) error {
	for _, ns := range w.namespaces() {
		if err := s.namespace(ctx, ns); err != nil {
			return err
		}
	}
	uids := make([]types.UID, len(w.objects))
	for i, th := range w.objects {
		o, err := s.dyn.Resource(th.kind.gvr).Namespace(th.ns).Create(ctx, w.object(i, uids), metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("%s: %w\n%s", s.name, err, w)
		}
		uids[i] = o.GetUID()
	}
	s.uids[w.number] = uids
	return nil
}

// state is the part of an object that is compared.
type state struct {
	deleting   bool
	finalizers []string
	refs       []ref
}

// ref is a reference with its owner's number in place of the UID; -1 is nobody.
type ref struct {
	owner                  int
	apiVersion, kind, name string
	block                  string
}

func (s *state) waits() bool {
	return s != nil && s.deleting && slices.Contains(s.finalizers, metav1.FinalizerDeleteDependents)
}

func (s *state) String() string {
	if s == nil {
		return "gone"
	}
	return fmt.Sprintf("%+v", *s)
}

// look returns the remaining objects, by world and object.
func (s *side) look(ctx context.Context, worlds []*world) ([]map[int]*state, error) {
	found := make([]map[int]*state, len(worlds))
	at := map[types.UID][2]int{}
	for _, w := range worlds {
		found[w.number] = map[int]*state{}
		for i, uid := range s.uids[w.number] {
			at[uid] = [2]int{w.number, i}
		}
	}
	for i, k := range kinds {
		if slices.Contains(kinds[:i], k) {
			continue
		}
		list, err := s.dyn.Resource(k.gvr).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for _, o := range list.Items {
			where, ok := at[o.GetUID()]
			if !ok {
				continue
			}
			st := &state{deleting: o.GetDeletionTimestamp() != nil, finalizers: o.GetFinalizers()}
			slices.Sort(st.finalizers)
			for _, r := range o.GetOwnerReferences() {
				number, block := -1, "unset"
				if o, ok := at[r.UID]; ok {
					number = o[1]
				}
				if r.BlockOwnerDeletion != nil {
					block = strconv.FormatBool(*r.BlockOwnerDeletion)
				}
				st.refs = append(st.refs, ref{number, r.APIVersion, r.Kind, r.Name, block})
			}
			found[where[0]][where[1]] = st
		}
	}
	return found, nil
}

// settle waits until both collectors are quiet and agree, or differ in a permitted way, and returns the differences.
// Worlds that can no longer be compared are in different from then on.
func settle(t *testing.T, when string, ours, theirs *side, held []*rules, different map[*world]bool) map[*world][]string {
	t.Helper()
	var worlds []*world
	for _, r := range held {
		worlds = append(worlds, r.w)
	}
	var permitted map[*world][]string
	var parted []*world
	var complaints []string
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		var before [2][]map[int]*state
		for pass := range 2 {
			var after [2][]map[int]*state
			for i, s := range []*side{ours, theirs} {
				var err error
				if after[i], err = s.look(ctx, worlds); err != nil {
					return false, err
				}
			}
			permitted, parted, complaints = map[*world][]string{}, nil, nil
			for _, r := range held {
				if bad := r.unfinished(after[0][r.w.number]); len(bad) > 0 {
					complaints = append(complaints, fmt.Sprintf("%s  %s", r.w, strings.Join(bad, "\n  ")))
				}
			}
			for _, s := range []*side{ours, theirs} {
				s.catchUp(t)
			}
			for _, w := range worlds {
				if different[w] {
					continue
				}
				reasons, bad, final := judge(w, after[0][w.number], after[1][w.number], waited(w, ours, theirs), func(i int) []past { return theirs.of(w, i) })
				if len(reasons) > 0 {
					permitted[w] = reasons
				}
				if final {
					parted = append(parted, w)
				}
				if len(bad) > 0 {
					complaints = append(complaints, fmt.Sprintf("%s  %s", w, strings.Join(bad, "\n  ")))
				}
			}
			if len(complaints) > 0 || pass == 1 && !reflect.DeepEqual(before, after) {
				return false, nil
			}
			before = after
			if pass == 0 {
				ours.mustWork(t)
				theirs.mustWork(t)
			}
		}
		return true, nil
	})
	if err != nil {
		t.Fatalf("%s: reap and upstream do not come to agree: %v\n%s", when, err, strings.Join(complaints, "\n"))
	}
	for _, w := range parted {
		different[w] = true
	}
	return permitted
}

// mustWork returns once the collector has worked through everything from before: it creates garbage of all kinds, more
// objects than there are workers, and a foreground deletion, waits for their end, and does so twice.
func (s *side) mustWork(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	ns := barriers
	if err := s.namespace(ctx, ns); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	for range 2 {
		s.barrier++
		g := errgroup.Group{}
		g.SetLimit(8)
		for n, k := range slices.Compact(slices.Clone(kinds)) {
			in := ""
			if k.namespaced {
				in = ns
			}
			client := s.dyn.Resource(k.gvr).Namespace(in)
			for i := range 6 {
				g.Go(func() error {
					name := fmt.Sprintf("barrier-%d-%d-%d", s.barrier, n, i)
					o := &unstructured.Unstructured{Object: map[string]any{}}
					o.SetAPIVersion(k.gvr.GroupVersion().String())
					o.SetKind(k.kind)
					o.SetName(name)
					absent := metav1.OwnerReference{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "nobody", UID: types.UID(fmt.Sprintf("%s-%s", s.name, name))}
					if i > 0 {
						o.SetOwnerReferences([]metav1.OwnerReference{absent})
					}
					o, err := client.Create(ctx, o, metav1.CreateOptions{})
					if err != nil {
						return err
					}
					if i == 0 {
						yes := true
						d := o.DeepCopy()
						d.SetName(name + "-dependent")
						d.SetResourceVersion("")
						d.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Name: name, UID: o.GetUID(), BlockOwnerDeletion: &yes}})
						if _, err := client.Create(ctx, d, metav1.CreateOptions{}); err != nil {
							return err
						}
						p := metav1.DeletePropagationForeground
						if err := client.Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &p}); err != nil {
							return err
						}
					}
					return wait.PollUntilContextTimeout(ctx, 25*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
						_, err := client.Get(ctx, name, metav1.GetOptions{})
						return apierrors.IsNotFound(err), nil
					})
				})
			}
		}
		if err := g.Wait(); err != nil {
			t.Fatalf("%s does not collect: %v", s.name, err)
		}
	}
}
