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

// It unblocks a dependent if something below that has ever been in foreground deletion.
func TestKubernetesRemembersWhatWaited(t *testing.T) {
	c := newCluster()
	c.put("Thing", "n", graph.Record{Name: "owner"})
	c.put("Thing", "n", graph.Record{Name: "middle"}, "owner")
	c.put("Thing", "n", graph.Record{Name: "waited", OtherFinalizers: true, Deleting: true, Foreground: true, DeletedAt: now.Unix()}, "middle")
	res := c.delete(foreground, Rules{Kubernetes: true}, "owner")
	if o := object(t, res, "owner"); o.Fate != Gone {
		t.Errorf("the owner is %s", o.Fate)
	}
}

// Whether it unblocks the dependent depends on whether what is below has gone by then. The dependent goes in any case.
func TestKubernetesMayUnblock(t *testing.T) {
	c := newCluster()
	c.put("Thing", "n", graph.Record{Name: "owner"})
	c.put("Thing", "n", graph.Record{Name: "middle"}, "owner")
	c.put("Thing", "n", graph.Record{Name: "low"}, "middle")
	c.put("Thing", "n", graph.Record{Name: "leaf"}, "low")
	res := c.delete(foreground, Rules{Kubernetes: true}, "owner", "low")
	if o := object(t, res, "middle"); len(res.Objects) != 4 || o.Fate != Gone || !o.Uncertain {
		t.Errorf("%+v", o)
	}
}

// One owner waits, and another has gone: the dependent is deleted in the foreground, whatever the order of its references.
func TestKubernetesOneOwnerWaits(t *testing.T) {
	c := newCluster()
	c.put("Thing", "n", graph.Record{Name: "a"})
	c.put("Thing", "n", graph.Record{Name: "b"})
	c.put("Thing", "n", graph.Record{Name: "d", References: append([]graph.Reference{c.ref("b")}, c.loose("a")...)})
	c.put("Thing", "n", graph.Record{Name: "held", OtherFinalizers: true}, "d")
	res := c.delete(foreground, Rules{Kubernetes: true}, "a", "b")
	if o := object(t, res, "d"); o.Policy != foreground {
		t.Errorf("the policy is %s", o.Policy)
	}
}

// It drops all references to a UID.
func TestKubernetesDropsByUID(t *testing.T) {
	for name, want := range map[string]int{"reap": 1, "Kubernetes": 2} {
		c := newCluster()
		c.put("Thing", "n", graph.Record{Name: "owner"})
		c.twin("Widget", "n", "owner", graph.Record{Name: "twin"})
		twin := c.ref("Widget/owner")
		twin.Name = "twin"
		c.put("Thing", "n", graph.Record{Name: "d", References: []graph.Reference{twin}}, "owner")
		res := c.delete(background, Rules{Kubernetes: name == "Kubernetes"}, "owner")
		if o := object(t, res, "d"); o.Fate != Freed || len(o.Loses) != want {
			t.Errorf("%s: d is %s and loses %v", name, o.Fate, o.Loses)
		}
	}
}

// With both finalizers it deletes as the one for orphaning says.
func TestKubernetesOrphansRatherThanWaits(t *testing.T) {
	c := newCluster()
	c.put("Thing", "n", graph.Record{Name: "owner"})
	c.put("Thing", "n", graph.Record{Name: "d", Orphan: true, Foreground: true}, "owner")
	c.put("Thing", "n", graph.Record{Name: "below"}, "d")
	expect(t, c.delete(background, Rules{Kubernetes: true}, "owner"), "gone owner", "gone d", "freed below no-references")
}
