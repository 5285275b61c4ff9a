package plan

import (
	"testing"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// loose returns a reference to an object that does not block it.
func (c *cluster) loose(to string) []graph.Reference {
	ref := c.ref(to)
	ref.BlockOwnerDeletion = graph.Unset
	return []graph.Reference{ref}
}

// Kubernetes' own collector retries, with growing delays, objects on which it failed because a kind is not served.
func TestKubernetesTriesAgainLate(t *testing.T) {
	c := newCluster()
	c.put("Thing", "n", graph.Record{Name: "owner"})
	c.put("Thing", "n", graph.Record{Name: "d"}, "Nothing/owner", "Thing/absent")
	c.put("Thing", "n", graph.Record{Name: "below"}, "d")
	res := c.delete(orphan, Rules{Kubernetes: true}, "owner")
	expect(t, res, "gone owner", "gone d", "gone below")
	for _, o := range res.Objects[1:] {
		if o.At != kubernetesRetry {
			t.Errorf("%s goes after %s", o.Record.Name, o.At)
		}
	}
}

// It does not retry a cluster-scoped object that names a namespaced owner.
func TestKubernetesGivesUp(t *testing.T) {
	c := newCluster()
	c.put("Thing", "n", graph.Record{Name: "owner"})
	c.put("World", "", graph.Record{Name: "d"}, "owner", "World/absent")
	expect(t, c.delete(orphan, Rules{Kubernetes: true}, "owner"), "gone owner", "freed d given-up")
}

// Its workers read owners live. If an owner waits only for a moment, they may or may not see it waiting.
func TestKubernetesMayMissThatAnOwnerWaits(t *testing.T) {
	c := newCluster()
	c.put("Thing", "n", graph.Record{Name: "owner", OtherFinalizers: true})
	c.put("Thing", "n", graph.Record{Name: "d", References: c.loose("owner")})
	expect(t, c.delete(foreground, Rules{Kubernetes: true}, "owner"), "gone d uncertain", "stuck owner other-finalizer")
}

// Its DELETE of an object that it has just unblocked fails. By the next attempt the owner may be gone, and then the
// DELETE has another policy.
func TestKubernetesDeletesWhatItUnblocksLater(t *testing.T) {
	c := newCluster()
	c.put("Thing", "n", graph.Record{Name: "owner"})
	c.put("Thing", "n", graph.Record{Name: "middle"}, "owner")
	c.put("Thing", "n", graph.Record{Name: "waits", Deleting: true, Foreground: true, DeletedAt: now.Unix()}, "middle")
	c.put("Thing", "n", graph.Record{Name: "held", OtherFinalizers: true, Deleting: true, DeletedAt: now.Unix()}, "waits")
	expect(t, c.delete(foreground, Rules{Kubernetes: true}, "owner"),
		"gone owner", "gone middle uncertain", "unchanged waits waits-for-dependent")
}
