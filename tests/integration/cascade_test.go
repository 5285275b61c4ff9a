package integration

import (
	"testing"
)

// TestBackgroundCascadeRemovesDependentsAndNothingElse is the main job.
func TestBackgroundCascadeRemovesDependentsAndNothingElse(t *testing.T) {
	s := shared(t)
	const n = 1000
	here, there := s.namespace(t, "cascade"), s.namespace(t, "cascade-bystanders")

	o := s.create(t, configMaps, here, "owner")
	other := s.create(t, configMaps, here, "other-owner")
	s.createMany(t, n, configMaps, here, "dependent", owner(o))
	// Nothing of these may go: equal names elsewhere, another kind with equal names, no owner, another owner.
	s.create(t, configMaps, there, "owner")
	s.createMany(t, 50, configMaps, there, "dependent")
	s.createMany(t, 50, secrets, here, "dependent")
	s.createMany(t, 50, configMaps, here, "unowned")
	s.createMany(t, 50, configMaps, here, "of-another", owner(other))

	before := s.inventory(t)
	s.delete(t, configMaps, o)
	s.awaitCount(t, 1+50+50, configMaps, here)
	s.barrier(t, configMaps, here)
	gone := append(many(n, configMaps, here, "dependent"), line(configMaps.gvr.GroupResource(), here, "owner"))
	before.mustBe(t, s.inventory(t), gone)
}

// TestBackgroundCascadeGoesThroughGenerations has chains and a dependent of two owners that both go.
func TestBackgroundCascadeGoesThroughGenerations(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "generations")
	root := s.create(t, configMaps, ns, "root")
	left := s.create(t, secrets, ns, "left", owner(root))
	right := s.create(t, configMaps, ns, "right", owner(root))
	child := s.create(t, configMaps, ns, "child", owner(left), owner(right))
	for i := range 10 {
		child = s.create(t, []kind{configMaps, secrets}[i%2], ns, "further-"+string(rune('a'+i)), owner(child))
	}
	s.delete(t, configMaps, root)
	s.awaitCount(t, 0, configMaps, ns)
	s.awaitCount(t, 0, secrets, ns)
}
