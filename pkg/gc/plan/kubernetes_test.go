package plan

import (
	"testing"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// loose refers to an object without blocking it.
func (c *cluster) loose(to string) []graph.Reference {
	ref := c.ref(to)
	ref.BlockOwnerDeletion = graph.Unset
	return []graph.Reference{ref}
}

// Kubernetes' own collector goes on trying what it has failed on since nobody serves a kind, ever more rarely.
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

// It does not with an object without a namespace that names an owner in one.
func TestKubernetesGivesUp(t *testing.T) {
	c := newCluster()
	c.put("Thing", "n", graph.Record{Name: "owner"})
	c.put("World", "", graph.Record{Name: "d"}, "owner", "World/absent")
	expect(t, c.delete(orphan, Rules{Kubernetes: true}, "owner"), "gone owner", "freed d given-up")
}

// Its workers read owners live: one that waits only for a moment may be seen waiting, or not.
func TestKubernetesMayMissThatAnOwnerWaits(t *testing.T) {
	c := newCluster()
	c.put("Thing", "n", graph.Record{Name: "owner", OtherFinalizers: true})
	c.put("Thing", "n", graph.Record{Name: "d", References: c.loose("owner")})
	expect(t, c.delete(foreground, Rules{Kubernetes: true}, "owner"), "gone d uncertain", "stuck owner other-finalizer")
}

// Its DELETE of an object that it has just unblocked fails, and by the next one the owner may have gone: then it names
// another policy.
func TestKubernetesDeletesWhatItUnblocksLater(t *testing.T) {
	c := newCluster()
	c.put("Thing", "n", graph.Record{Name: "owner"})
	c.put("Thing", "n", graph.Record{Name: "middle"}, "owner")
	c.put("Thing", "n", graph.Record{Name: "waits", Deleting: true, Foreground: true, DeletedAt: now.Unix()}, "middle")
	c.put("Thing", "n", graph.Record{Name: "held", OtherFinalizers: true, Deleting: true, DeletedAt: now.Unix()}, "waits")
	expect(t, c.delete(foreground, Rules{Kubernetes: true}, "owner"),
		"gone owner", "gone middle uncertain", "unchanged waits waits-for-dependent")
}
