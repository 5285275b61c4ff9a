package report

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// writeDOT writes vertices as a graph in Graphviz's language, with an edge from each
// dependent to each of its owners. The attributes are those of kube-controller-manager's
// debug handler, but for the version, which the collector does not keep.
func writeDOT(out io.Writer, vertices []graph.Vertex) error {
	slices.SortFunc(vertices, func(a, b graph.Vertex) int { return cmp.Compare(a.UID, b.UID) })
	w := bufio.NewWriter(out)
	fmt.Fprintln(w, "strict digraph full {")
	for i := range vertices {
		v := &vertices[i]
		deleting, waiting := false, false
		for _, o := range v.Observed {
			deleting = deleting || o.Record.Deleting
			waiting = waiting || o.Record.WaitingForDependents()
		}
		virtual := len(v.Observed) == 0
		kind := v.At.Kind
		if v.At.Group != "" {
			kind += "." + v.At.Group
		}
		label := fmt.Sprintf("uid=%s\nnamespace=%s\n%s/%s\n", v.UID, v.At.Namespace, kind, v.At.Name)
		var states []string
		for state, is := range map[string]bool{"beingDeleted": deleting, "deletingDependents": waiting, "virtual": virtual} {
			if is {
				states = append(states, state)
			}
		}
		if len(states) > 0 {
			slices.Sort(states)
			label += strings.Join(states, ",") + "\n"
		}
		fmt.Fprintf(w, "  %s [\n", quote(string(v.UID)))
		for _, a := range [][2]string{
			{"label", label}, {"group", v.At.Group}, {"kind", v.At.Kind}, {"namespace", v.At.Namespace}, {"name", v.At.Name},
			{"uid", string(v.UID)}, {"missing", "false"}, {"beingDeleted", fmt.Sprint(deleting)},
			{"deletingDependents", fmt.Sprint(waiting)}, {"virtual", fmt.Sprint(virtual)},
		} {
			fmt.Fprintf(w, "    %s=%s\n", a[0], quote(a[1]))
		}
		fmt.Fprintln(w, "  ];")
	}
	for i := range vertices {
		for _, owner := range vertices[i].Owners {
			fmt.Fprintf(w, "  %s -> %s;\n", quote(string(vertices[i].UID)), quote(string(owner)))
		}
	}
	fmt.Fprintln(w, "}")
	return w.Flush()
}

// quote makes a string of the DOT language, in which a backslash before anything but
// n, l, r or a quote stays what it is. References may hold whatever their writers put
// there.
func quote(s string) string {
	return `"` + visible(strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s)) + `"`
}
