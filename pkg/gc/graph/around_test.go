package graph

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestAround(t *testing.T) {
	g := newGraph(t)
	g.show(widgets, object("n", "root"))
	g.show(things, object("n", "a", to(widgets, "root")))
	g.show(things, object("n", "b", to(things, "a"), to(widgets, "virtual")))
	g.show(things, object("n", "self", to(things, "self")))
	g.show(things, object("n", "alone"))
	around := func(uids ...types.UID) (got []string) {
		for _, v := range g.Around(uids...) {
			got = append(got, string(v.UID))
		}
		slices.Sort(got)
		return got
	}
	for _, c := range []struct {
		uids []types.UID
		want []string
	}{
		{nil, []string{"a", "alone", "b", "root", "self", "virtual"}},
		{[]types.UID{"root"}, []string{"a", "b", "root", "virtual"}},
		{[]types.UID{"virtual"}, []string{"a", "b", "root", "virtual"}},
		{[]types.UID{"self", "alone", "self"}, []string{"alone", "self"}},
		{[]types.UID{"nobody"}, nil},
	} {
		if got := around(c.uids...); !slices.Equal(got, c.want) {
			t.Errorf("around %v: %v", c.uids, got)
		}
	}
	for _, v := range g.Around() {
		want := Coordinates{Kind: things.Kind, Group: things.Group, Namespace: "n", Name: string(v.UID)}
		if v.UID == "root" || v.UID == "virtual" {
			want.Kind, want.Group = widgets.Kind, widgets.Group
		}
		if v.At != want || (len(v.Observed) == 0) != (v.UID == "virtual") {
			t.Errorf("%s: %+v", v.UID, v)
		}
		if v.UID == "b" && !slices.Equal(v.Owners, []types.UID{"a", "virtual"}) {
			t.Errorf("b names %v", v.Owners)
		}
	}
}
