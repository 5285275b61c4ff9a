package decide

import (
	"testing"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// TestSightThatTheMonitorContradictsIsNotFinal: a live read that was sent before
// the owner's foreground deletion is taken in after the event of it. For a second
// the owner counts as solid; no event need wake the dependent afterwards, and it
// would hold the owner for ever. Whatever rests on a read has to be looked at again.
func TestSightThatTheMonitorContradictsIsNotFinal(t *testing.T) {
	o := owner("o", func(o *graph.OwnerView) { o.Observed, o.Fact = waiter, present(0) })
	v := graph.View{Record: &graph.Record{Namespace: "n", Name: "d", UID: "d"}, Owners: []graph.OwnerView{o}}
	if d := Decide(&v, Options{}, now); d.Reason != OwnerSolid || !d.Again.Equal(now.Add(WaitingFor)) {
		t.Errorf("it is looked at again at %v", d.Again)
	}
}
