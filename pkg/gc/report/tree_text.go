package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// Print writes the tree for people.
func (t Tree) Print(out io.Writer) error { return t.PrintIn(out, Plain) }

// PrintIn is Print in colours.
func (t Tree) PrintIn(out io.Writer, p Palette) error {
	if err := t.Basis.Print(out); err != nil {
		return err
	}
	if len(t.Nodes) == 0 {
		text := "nothing here has an owner or is being deleted"
		if len(t.Basis.Incomplete) > 0 {
			text = "nothing that could be read here has an owner or is being deleted"
		}
		_, err := fmt.Fprintln(out, text)
		return err
	}
	w := &treeWriter{tabs: tabwriter.NewWriter(out, 0, 0, 2, ' ', 0), tree: &t, palette: p,
		byUID: map[types.UID]*TreeNode{}, below: map[types.UID][]*TreeNode{}, printed: map[types.UID]bool{}}
	fmt.Fprintln(w.tabs, "OBJECT\tREADY\tAGE\tSTATUS")
	w.all()
	if err := w.tabs.Flush(); err != nil {
		return err
	}
	if more := t.Count - len(t.Nodes); more > 0 {
		_, err := fmt.Fprintf(out, "\n%s, of which %d are shown; --limit=0 shows all\n", count(t.Count, "object"), len(t.Nodes))
		return err
	}
	return nil
}

type treeWriter struct {
	tabs    *tabwriter.Writer
	tree    *Tree
	palette Palette
	byUID   map[types.UID]*TreeNode
	below   map[types.UID][]*TreeNode
	printed map[types.UID]bool
}

// all prints every tree, and then the rings, which have no root.
func (w *treeWriter) all() {
	nodes := w.tree.Nodes
	for i := range nodes {
		w.byUID[nodes[i].Object.UID] = &nodes[i]
	}
	var roots []*TreeNode
	for i := range nodes {
		n := &nodes[i]
		owned := false
		for _, uid := range n.shownOwners() {
			if w.byUID[uid] != nil && uid != n.Object.UID {
				w.below[uid] = append(w.below[uid], n)
				owned = true
			}
		}
		if !owned {
			roots = append(roots, n)
		}
	}
	// What was asked for stands below its own owners first.
	above := w.aboveAsked()
	slices.SortStableFunc(roots, func(a, b *TreeNode) int {
		switch first, second := above[a.Object.UID], above[b.Object.UID]; {
		case first == second:
			return 0
		case first:
			return -1
		}
		return 1
	})
	for _, n := range roots {
		w.print(n, "", "", nil)
	}
	for i := range nodes {
		if !w.printed[nodes[i].Object.UID] {
			w.print(&nodes[i], "", "", nil)
		}
	}
}

// aboveAsked returns the objects that were asked for and all owners above them.
func (w *treeWriter) aboveAsked() map[types.UID]bool {
	above := map[types.UID]bool{}
	for next := slices.Clone(w.tree.Asked); len(next) > 0; {
		uid := next[len(next)-1]
		next = next[:len(next)-1]
		if n := w.byUID[uid]; n != nil && !above[uid] {
			above[uid] = true
			next = append(next, n.shownOwners()...)
		}
	}
	return above
}

// shownOwners returns the UIDs of the owners that the graph shows, each once.
func (n *TreeNode) shownOwners() (all []types.UID) {
	for _, o := range n.Owners {
		if uid := types.UID(o.UID); o.Shown && !slices.Contains(all, uid) {
			all = append(all, uid)
		}
	}
	return all
}

// deepest is how far a level is indented: a chain of thousands would be a wall.
const deepest = 120

// print prints a node behind its own prefix, and what is below it behind the other.
func (w *treeWriter) print(n *TreeNode, own, below string, parent *TreeNode) {
	name := n.Object.String()
	if parent != nil && parent.Object.Namespace == n.Object.Namespace {
		name = strings.TrimSuffix(name, " -n "+n.Object.Namespace)
	}
	if slices.Contains(w.tree.Asked, n.Object.UID) {
		name += " ◀"
	}
	again := w.printed[n.Object.UID]
	w.printed[n.Object.UID] = true
	age, ready := "-", "-"
	if !n.Created.IsZero() {
		age = ago(n.Created, w.tree.Now)
	}
	if n.Ready != "" {
		ready = visible(n.Ready)
	}
	status := w.status(n, parent)
	if again {
		status = "shown above"
	}
	// Colours stand in the last column alone: the others are aligned by their width.
	fmt.Fprintf(w.tabs, "%s%s\t%s\t%s\t%s\n", own, name, ready, age, status)
	if again {
		return
	}
	if utf8.RuneCountInString(below) > deepest {
		below = strings.Repeat(" ", deepest)
	}
	children := w.below[n.Object.UID]
	for i, c := range children {
		if i == len(children)-1 && n.Cut == 0 {
			w.print(c, below+"└─ ", below+"   ", n)
		} else {
			w.print(c, below+"├─ ", below+"│  ", n)
		}
	}
	if n.Cut > 0 {
		fmt.Fprintf(w.tabs, "%s└─ and %d more\t\t\t\n", below, n.Cut)
	}
}

// foreign returns the finalizers that are not the collector's.
func foreign(finalizers []string) []string { return graph.FinalizersOf(finalizers).Names() }

// status says what is remarkable about a node.
func (w *treeWriter) status(n, parent *TreeNode) string {
	var all []string
	bad := func(format string, args ...any) { all = append(all, w.palette.Bad(fmt.Sprintf(format, args...))) }
	switch {
	case n.Gone:
		bad("gone meanwhile")
	case n.DeletedAt.IsZero():
	case n.Waits == "orphan":
		bad("Terminating for %s: its dependents are being orphaned", ago(n.DeletedAt, w.tree.Now))
	case n.BlockedBy.Count > 0:
		bad("Terminating for %s: blocked by %s", ago(n.DeletedAt, w.tree.Now), n.BlockedBy.text(2))
	case len(foreign(n.Finalizers)) > 0:
		bad("Terminating for %s: held by the %s", ago(n.DeletedAt, w.tree.Now), finalizerNames(foreign(n.Finalizers)))
	case n.Waits == "foreground":
		bad("Terminating for %s: nothing blocks it", ago(n.DeletedAt, w.tree.Now))
	default:
		bad("Terminating for %s", ago(n.DeletedAt, w.tree.Now))
	}
	var also []string
	for _, o := range n.Owners {
		named := visible(o.Kind + " " + o.Name)
		switch {
		case types.UID(o.UID) == n.Object.UID && o.Shown:
			bad("owns itself")
		case o.Shown && (parent == nil || types.UID(o.UID) != parent.Object.UID):
			also = append(also, named)
		case o.Shown:
		case o.State == "dangling":
			bad("its owner %s does not exist", named)
		case o.State == "unknown":
			bad("its owner %s cannot be looked up", named)
		case o.State == "invalid":
			bad("its owner %s is of a namespaced kind", named)
		case o.State == "unverified":
			bad("its owner %s has not been found", named)
		default:
			also = append(also, named) // no monitor shows it, and a read has found it
		}
	}
	if len(also) > 0 {
		const most = 3
		text := strings.Join(also[:min(most, len(also))], ", ")
		if more := len(also) - most; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		all = append(all, w.palette.Faint("also owned by "+text))
	}
	return strings.Join(all, "; ")
}

// PrintDOT writes the tree in Graphviz's language, with an edge from each dependent to each of
// its owners.
func (t Tree) PrintDOT(out io.Writer) error {
	var b strings.Builder
	for _, g := range t.Basis.Incomplete {
		fmt.Fprintf(&b, "// incomplete: %s: %s\n", oneLine(g.What), oneLine(g.Why))
	}
	fmt.Fprintln(&b, "strict digraph owners {")
	for i := range t.Nodes {
		n := &t.Nodes[i]
		attributes := "label=" + quote(strings.ReplaceAll(n.Object.String(), " -n ", "\n"))
		if !n.DeletedAt.IsZero() {
			attributes += " color=red"
		}
		fmt.Fprintf(&b, "  %s [%s];\n", quote(string(n.Object.UID)), attributes)
	}
	for i := range t.Nodes {
		for _, o := range t.Nodes[i].Owners {
			style := ""
			if !o.Shown {
				style = " [style=dashed]"
			}
			fmt.Fprintf(&b, "  %s -> %s%s;\n", quote(string(t.Nodes[i].Object.UID)), quote(o.UID), style)
		}
	}
	fmt.Fprintln(&b, "}")
	_, err := io.WriteString(out, b.String())
	return err
}
