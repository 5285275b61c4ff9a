package decide

import (
	"testing"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// TestReadThatTheMonitorContradictsIsNotFinal: a live read that was sent before the
// owner's foreground deletion can arrive after the event of the deletion. For a
// second the owner counts as solid. No event need wake the dependent afterwards, and
// the dependent would block the owner for ever. A decision that rests on a read
// therefore has to be made again.
func TestReadThatTheMonitorContradictsIsNotFinal(t *testing.T) {
	o := owner("o", func(o *graph.OwnerView) { o.Observed, o.Fact = waiter, present(0) })
	v := graph.View{Record: &graph.Record{Namespace: "n", Name: "d", UID: "d"}, Owners: []graph.OwnerView{o}}
	if d := Decide(&v, Options{}, now); d.Reason != OwnerSolid || !d.Again.Equal(now.Add(WaitingFor)) {
		t.Errorf("it is looked at again at %v", d.Again)
	}
}
