package plan

import (
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// protected puts an object with finalizers into the cluster.
func (c *cluster) protected(kind, namespace, name string, finalizers []string, owners ...string) {
	rec := graph.RecordOf(&metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name), Finalizers: finalizers})
	c.put(kind, namespace, *rec, owners...)
}

// TestPodOfAJobGoes: the Job controller takes its finalizer off a pod that is deleted, so the
// pod neither stays nor holds the Job.
func TestPodOfAJobGoes(t *testing.T) {
	tracking := []string{graph.JobTrackingFinalizer}
	for policy, want := range map[metav1.DeletionPropagation][]string{
		background: {"gone job", "gone pod"},
		foreground: {"gone pod", "gone job"},
		orphan:     {"gone job", "freed pod no-references"},
		"":         {"gone job", "freed pod no-references"},
	} {
		t.Run(fmt.Sprintf("policy %q", policy), func(t *testing.T) {
			c := newCluster()
			c.put("Job", "n", graph.Record{Name: "job"})
			c.protected("Pod", "n", "pod", tracking, "job")
			expect(t, c.delete(policy, Rules{}, "job"), want...)
		})
	}
	c := newCluster()
	c.put("Job", "n", graph.Record{Name: "job"})
	c.protected("Pod", "n", "pod", tracking, "job")
	expect(t, c.delete(background, Rules{Kubernetes: true}, "job"), "gone job", "gone pod")
	expect(t, c.delete(background, Rules{}, "pod"), "gone pod")
	off := Rules{Disabled: []string{"job"}}
	expect(t, c.delete(background, off, "job"), "gone job", "stuck pod other-finalizer")
	expect(t, c.delete(foreground, off, "job"), "stuck pod other-finalizer", "stuck job waits-for-dependent")

	c.protected("Pod", "n", "pod", append(tracking, "ex.io/other"), "job")
	expect(t, c.delete(background, Rules{}, "job"), "gone job", "stuck pod other-finalizer")
}

// TestPodThatIsBeingDeletedWithItsJobsFinalizerGoes as one without a finalizer does.
func TestPodThatIsBeingDeletedWithItsJobsFinalizerGoes(t *testing.T) {
	c := newCluster()
	c.put("Job", "n", graph.Record{Name: "job"})
	deleted := metav1.NewTime(now)
	rec := graph.RecordOf(&metav1.ObjectMeta{Name: "pod", Finalizers: []string{graph.JobTrackingFinalizer}, DeletionTimestamp: &deleted})
	c.put("Pod", "n", *rec, "job")
	expect(t, c.delete(foreground, Rules{}, "job"), "gone pod", "gone job")
	expect(t, c.delete(foreground, Rules{Disabled: []string{"job"}}, "job"), "stuck job waits-for-dependent", "unchanged pod being-deleted")
}

// TestPodOfAnotherControllerKeepsAJobsFinalizer: the Job controller leaves such a pod alone.
func TestPodOfAnotherControllerKeepsAJobsFinalizer(t *testing.T) {
	c := newCluster()
	c.put("Thing", "n", graph.Record{Name: "set"})
	c.put("Job", "n", graph.Record{Name: "job"})
	for owner, want := range map[string][]string{"set": {"stuck pod other-finalizer"}, "job": {"gone pod"}} {
		ref := c.ref(owner)
		ref.Controller = graph.True
		rec := graph.RecordOf(&metav1.ObjectMeta{Name: "pod", Finalizers: []string{graph.JobTrackingFinalizer}})
		rec.References = []graph.Reference{ref}
		c.put("Pod", "n", *rec)
		expect(t, c.delete(background, Rules{}, "pod"), want...)
	}
}

// TestProtectedClaimGoes unless its controller is disabled. That it may be in use is noted.
func TestProtectedClaimGoes(t *testing.T) {
	for kind, protection := range map[string][2]string{
		"Claim":  {"kubernetes.io/pvc-protection", "pvc-protection"},
		"Volume": {"kubernetes.io/pv-protection", "pv-protection"},
	} {
		c := newCluster()
		c.protected(kind, "", "held", protection[:1])
		res := c.delete(background, Rules{}, "held")
		expect(t, res, "gone held")
		if !slices.ContainsFunc(res.Notes, func(n Note) bool { return n.What == Protected && n.Count == 1 }) {
			t.Errorf("%s: nothing says that it may be in use: %v", kind, res.Notes)
		}
		expect(t, c.delete(background, Rules{Disabled: protection[1:]}, "held"), "stuck held other-finalizer")
		// Only on its own resource does a controller look for its finalizer.
		c.protected("Thing", "n", "other", protection[:1])
		expect(t, c.delete(background, Rules{}, "other"), "stuck other other-finalizer")
	}
}

// TestNamespaceStaysWithoutItsController, and so does everything in it.
func TestNamespaceStaysWithoutItsController(t *testing.T) {
	c := newCluster()
	c.put("Namespace", "", graph.Record{Name: "ns"})
	c.put("Thing", "ns", graph.Record{Name: "a"})
	expect(t, c.delete(background, Rules{Disabled: []string{"namespace"}}, "ns"), "stuck ns controller-off")
	c.put("Namespace", "", graph.Record{Name: "ns", Deleting: true, DeletedAt: now.Unix()})
	expect(t, c.delete(background, Rules{Disabled: []string{"namespace"}}, "ns", "a"), "gone a", "stuck ns controller-off")
}
