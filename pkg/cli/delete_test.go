package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/reap-dev/reap/pkg/gc/report"
)

func shownAs(uid string, deleting bool, finalizers ...string) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: uid, UID: types.UID(uid), Finalizers: finalizers}}
	if deleting {
		m.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	}
	return m
}

func following(uids ...string) *follower {
	f := &follower{left: map[types.UID]*followed{}, all: sets.New[types.UID]()}
	for _, uid := range uids {
		f.all.Insert(types.UID(uid))
		f.left[types.UID(uid)] = &followed{object: report.Object{Resource: "configmaps", Namespace: "ns", Name: uid, UID: types.UID(uid)}}
	}
	return f
}

// TestFollowerCountsWhatIsGone: by UID, and by whatever a watch shows of an end.
func TestFollowerCountsWhatIsGone(t *testing.T) {
	f := following("a", "b", "c", "d")
	f.shown(shownAs("a", true, metav1.FinalizerDeleteDependents))
	f.shown(shownAs("b", true, "example.com/hold", metav1.FinalizerDeleteDependents))
	f.shown(shownAs("c", false, "example.com/other"))
	f.shown(shownAs("stranger", true, "example.com/hold"))
	left, held, count := f.progress()
	if left != 4 || count != 1 || len(held) != 1 || held[0].Object.Name != "b" || !slices.Equal(held[0].Finalizers, []string{"example.com/hold"}) {
		t.Errorf("%d left, %d hold: %+v", left, count, held)
	}
	f.gone(uidOf(shownAs("b", true)))
	f.gone(uidOf(cache.DeletedFinalStateUnknown{Key: "ns/c", Obj: shownAs("c", true)}))
	f.gone(uidOf(cache.DeletedFinalStateUnknown{Key: "ns/x"}))
	if left, _, count = f.progress(); left != 2 || count != 0 {
		t.Errorf("%d left, %d hold", left, count)
	}
	f.fails(schema.GroupResource{Resource: "secrets"}, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, ""))
	if left, _, _ = f.progress(); left != 2 {
		t.Errorf("%d left after another resource has gone", left)
	}
	f.fails(schema.GroupResource{Resource: "configmaps"}, apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, ""))
	if left, _, _ = f.progress(); left != 0 {
		t.Errorf("%d left after the resource has gone", left)
	}
}

// TestFollowerGivesUp: at once where rights are missing, later where nobody answers.
func TestFollowerGivesUp(t *testing.T) {
	now := time.Now()
	f := following("a")
	if err, over := f.trouble(now); err != nil || over {
		t.Errorf("%v, %v", err, over)
	}
	f.silent, f.since = errors.New("refused"), now
	if err, over := f.trouble(now.Add(answersWithin)); err == nil || over {
		t.Errorf("%v, %v", err, over)
	}
	if err, over := f.trouble(now.Add(answersWithin + time.Second)); err == nil || !over {
		t.Errorf("%v, %v", err, over)
	}
	f = following("a")
	f.fails(schema.GroupResource{}, errors.New("a proxy has closed the connection"))
	if err, over := f.trouble(now); err != nil || over {
		t.Errorf("%v, %v", err, over)
	}
	f.fails(schema.GroupResource{}, apierrors.NewForbidden(schema.GroupResource{}, "", nil))
	if err, over := f.trouble(now); !apierrors.IsForbidden(err) || !over {
		t.Errorf("%v, %v", err, over)
	}
}

// TestOnlyWhatStillFollowsIsWaitedFor: a and what follows from it alone are kept, since its DELETE was refused.
func TestOnlyWhatStillFollowsIsWaitedFor(t *testing.T) {
	owners := map[string][]string{
		"a": {"stranger"}, "a-set": {"a"}, "a-pod": {"a-set"}, // refused, and what follows
		"b": nil, "b-set": {"b"}, "b-pod": {"b-set"}, // accepted, and what follows
		"chosen": {"a"}, "chosen-pod": {"chosen"}, // accepted, though its owner was refused
		"taken":  {"b", "stranger"},                            // refused, though its owner was accepted
		"shared": {"a-set", "b-set"}, "shared-pod": {"shared"}, // follow from both together
		"ring": {"ring-pod"}, "ring-pod": {"ring"}, // refused, and an owner of its owner
	}
	f := following(slices.Collect(maps.Keys(owners))...)
	show := func(uid string, deleting bool) {
		m := shownAs(uid, deleting)
		for _, owner := range owners[uid] {
			m.OwnerReferences = append(m.OwnerReferences, metav1.OwnerReference{UID: types.UID(owner)})
		}
		f.shown(m)
	}
	for uid := range owners {
		show(uid, false)
	}
	step := func(name string, want int) {
		t.Helper()
		left, _, _ := f.progress()
		if kept := f.kept([]report.Object{{UID: "b"}, {UID: "chosen"}}); left-kept != want {
			t.Errorf("%s: %d of %d are kept, so %d are waited for instead of %d", name, kept, left, left-kept, want)
		}
	}
	step("at first", 6)
	f.gone("b")
	step("an owner is gone", 5)
	f.gone("b-set")
	f.gone("chosen")
	step("what is left of both cascades has no owner", 3)
	f.gone("b-pod")
	f.gone("chosen-pod")
	f.gone("taken")
	step("both cascades are over", 0)
	show("a", true)
	step("somebody has deleted a meanwhile", 5)
	f.gone("a")
	f.gone("a-set")
	f.gone("a-pod")
	f.gone("shared")
	step("its end frees what it shared", 1)
	f.gone("shared-pod")
	step("the ring has only itself", 0)
}

// TestInterruptedDeleteAwaitsItsAnswers: what the server was asked for is reported as deleted, or as unknown if there is no answer.
// Nothing else is asked for, and nothing again.
func TestInterruptedDeleteAwaitsItsAnswers(t *testing.T) {
	for name, tc := range map[string]struct {
		answer             int // 0: none
		requested, unknown int
	}{
		"answered":            {answer: http.StatusOK, requested: deletedAtOnce},
		"not answered":        {unknown: deletedAtOnce},
		"asked to come again": {answer: http.StatusTooManyRequests},
	} {
		t.Run(name, func(t *testing.T) {
			var asked sync.WaitGroup
			asked.Add(deletedAtOnce)
			interrupted, interrupt := context.WithCancel(t.Context())
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // net/http looks out for the connection's end only behind the body
				asked.Done()
				<-interrupted.Done()
				if tc.answer == 0 {
					<-r.Context().Done()
				} else if r.Context().Err() == nil {
					w.Header().Set("Content-Type", "application/json")
					w.Header().Set("Retry-After", "0")
					w.WriteHeader(tc.answer)
					_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Success"}`)
				}
			}))
			defer server.Close()
			d := &deletion{server: &connection{config: &rest.Config{Host: server.URL}}, talk: io.Discard}
			for i := range deletedAtOnce + 2 {
				d.objects = append(d.objects, &object{resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, metadata: shownAs(fmt.Sprint("o", i), false)})
			}
			go func() {
				asked.Wait()
				interrupt()
			}()
			var done report.Deleted
			err := d.delete(interrupted, &done)
			unknown := 0
			for _, o := range done.Failed {
				if o.Unknown {
					unknown++
				} else if o.Error != errNotAsked.Error() {
					t.Errorf("%s: %s", o.Object, o.Error)
				}
			}
			if err == nil || len(done.Requested) != tc.requested || unknown != tc.unknown || len(done.Failed) != deletedAtOnce+2-tc.requested {
				t.Errorf("%d deleted, %d not, %d of them unknown: %v", len(done.Requested), len(done.Failed), unknown, err)
			}
		})
	}
}

// TestPace: of the last seconds, and since when nothing moves.
func TestPace(t *testing.T) {
	var p pace
	now := time.Unix(1000, 0)
	for second, want := range []struct {
		n       int
		rate    float64
		stalled time.Duration
	}{{0, 0, 0}, {10, 10, 0}, {30, 15, 0}, {30, 10, time.Second}, {30, 7.5, 2 * time.Second}, {30, 6, 3 * time.Second}, {30, 4, 4 * time.Second}, {30, 0, 5 * time.Second}} {
		rate, stalled := p.at(want.n, now.Add(time.Duration(second)*time.Second))
		if rate != want.rate || stalled != want.stalled {
			t.Errorf("second %d: %v/s, stalled for %v", second, rate, stalled)
		}
	}
}

// TestProgressIsSaid in a few words.
func TestProgressIsSaid(t *testing.T) {
	for got, want := range map[string]string{
		progressLine(50, 100, 10, 80):                                      "50% [============>.............] 50 of 100 objects gone, 10/s, 5s to go",
		progressLine(1, 1, 10, 80):                                         "100% [==========================] 1 of 1 object gone",
		strings.Join(heldLines(nil, 0, 2), "|"):                            "waiting for 2 objects; nothing with a finalizer of its own is among them",
		question(report.Plan{Totals: report.PlanCount{Gone: 1}}):           "\nDelete 1 object?",
		question(report.Plan{Totals: report.PlanCount{Gone: 2, Stuck: 1}}): "\nDelete 3 objects? 1 of them would stay, Terminating.",
		strings.Join(heldLines([]report.Holder{{Object: report.Object{Resource: "configmaps", Name: "a"}, Finalizers: []string{"x", "y"}}}, 3, 9), "|"): "held by configmaps/a: it has the finalizer x, y|and by 2 more",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestStuckFinalizer: only of an object that has been deleted, and another controller's only by its name.
func TestStuckFinalizer(t *testing.T) {
	const ours, orphan, theirs = metav1.FinalizerDeleteDependents, metav1.FinalizerOrphanDependents, "example.com/hold"
	for _, c := range []struct {
		deleted bool
		has     []string
		named   string
		want    string
		says    string
	}{
		{false, []string{ours}, "", "", "has not been deleted"},
		{true, []string{theirs, ours}, "", ours, ""},
		{true, []string{orphan}, "", orphan, ""},
		{true, []string{theirs}, theirs, theirs, ""},
		{true, []string{theirs}, "", "", "it has example.com/hold: name one"},
		{true, nil, "", "", "grace period"},
		{true, []string{ours, orphan}, "", "", "both"},
		{true, []string{ours, orphan}, orphan, orphan, ""},
		{true, []string{theirs}, "example.com/hol", "", `did you mean "example.com/hold"?`},
	} {
		o := &object{resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, metadata: shownAs("o", c.deleted, c.has...)}
		got, err := stuckFinalizer(o, nil, c.named)
		if got != c.want || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: got %q, %v", c, got, err)
		}
	}
	ns := &object{resource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, metadata: shownAs("shop", true)}
	if _, err := stuckFinalizer(ns, nil, ""); err == nil || !strings.Contains(err.Error(), "reap why namespaces/shop") {
		t.Errorf("of a namespace: %v", err)
	}
}
