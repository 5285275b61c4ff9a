package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/reap-dev/reap/pkg/gc/plan"
)

// Print writes the plan for people: counts, what goes as a tree, what stays, and what
// cannot be foretold.
func (p Plan) Print(out io.Writer) error { return p.PrintIn(out, Plain) }

// PrintIn is Print in colours.
func (p Plan) PrintIn(out io.Writer, colours Palette) error {
	w := &lines{out: out}
	if err := p.Basis.Print(w); err != nil {
		return err
	}
	if p.Pause != nil {
		w.line("The collector is paused: %s.", pauseText(p.Pause, p.Now))
		w.line("Nothing follows the DELETE until then; the plan says what would follow after reap resume.")
		w.line("")
	}
	w.line("%s", colours.Strong(p.summary()))
	if len(p.Counts) > 0 {
		w.line("")
		p.printCounts(w)
	}
	p.printTree(w, colours)
	p.printStaying(w)
	if p.Omitted > 0 {
		w.line("and %s, counted above; --limit lists more", count(p.Omitted, "object")+" more")
	}
	for i, ring := range p.Rings {
		w.line("")
		w.line("ring %d: %s wait for each other (%s); the ring is broken", i+1, count(ring.Count, "object"), ring.text(listed))
	}
	if len(p.NotForetold) > 0 {
		w.line("")
		w.line("Not foretold:")
		for _, n := range p.NotForetold {
			w.line("  %s (%s, such as %s)", n.Text, count(n.Count, "object"), n.Example)
		}
	}
	return w.err
}

// summary says in a sentence what becomes of how many.
func (p Plan) summary() string {
	parts := []string{count(p.Totals.Gone, "object") + " would be deleted"}
	for _, c := range []struct {
		n    int
		text string
	}{{p.Totals.Stuck, "would stay Terminating"}, {p.Totals.Freed, "would lose a reference and stay"}, {p.Totals.Unchanged, "would stay as it is"}} {
		if c.n > 0 {
			text := c.text
			if c.n > 1 {
				text = strings.NewReplacer("a reference", "references", "it is", "they are").Replace(text)
			}
			parts = append(parts, fmt.Sprintf("%d %s", c.n, text))
		}
	}
	text := strings.Join(parts, ", ")
	if took := time.Duration(p.TookSeconds * float64(time.Second)); took >= time.Minute {
		text += "; the last of it after " + duration.HumanDuration(took)
	}
	return text + "."
}

func (p Plan) printCounts(w *lines) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "RESOURCE\tNAMESPACE\tGOES\tTERMINATING\tFREED\tSTAYS")
	n := func(n int) string {
		if n == 0 {
			return "-"
		}
		return fmt.Sprint(n)
	}
	for _, c := range p.Counts[:min(len(p.Counts), countsListed)] {
		resource, namespace := c.Resource, c.Namespace
		if c.Group != "" {
			resource += "." + c.Group
		}
		if namespace == "" {
			namespace = "-"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", resource, namespace, n(c.Gone), n(c.Stuck), n(c.Freed), n(c.Unchanged))
	}
	_ = t.Flush() // w keeps the error
	if more := len(p.Counts) - countsListed; more > 0 {
		w.line("and %d more of these lines; -o json has all", more)
	}
}

// countsListed is how many lines of counts are printed.
const countsListed = 40

// printTree prints what goes, or is deleted and stays, each below the object that it
// follows.
func (p Plan) printTree(w *lines, colours Palette) {
	below := map[types.UID][]*PlannedObject{}
	shown := map[types.UID]bool{}
	for i := range p.Objects {
		if p.Objects[i].deleted() {
			shown[p.Objects[i].Object.UID] = true
		}
	}
	var roots []*PlannedObject
	for i := range p.Objects {
		o := &p.Objects[i]
		switch {
		case !o.deleted():
		case o.BecauseOf != "" && shown[o.BecauseOf] && o.BecauseOf != o.Object.UID:
			below[o.BecauseOf] = append(below[o.BecauseOf], o)
		default:
			roots = append(roots, o)
		}
	}
	if len(roots) == 0 {
		return
	}
	w.line("")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "STEP\tDELETED\tAGE\tWHAT BECOMES OF IT")
	// A tree may be deep: what is to be printed next is kept in a list, not on the stack.
	type row struct {
		o, above   *PlannedObject
		lead, into string // before its name, and before those below it
	}
	var next []row
	push := func(children []*PlannedObject, above *PlannedObject, into string) {
		for i := len(children) - 1; i >= 0; i-- {
			r := row{o: children[i], above: above, lead: into + "├─ ", into: into + "│  "}
			if i == len(children)-1 {
				r.lead, r.into = into+"└─ ", into+"   "
			}
			if above == nil {
				r.lead, r.into = "", ""
			}
			next = append(next, r)
		}
	}
	push(roots, nil, "")
	for len(next) > 0 {
		r := next[len(next)-1]
		next = next[:len(next)-1]
		step := "-"
		if r.o.Step > 0 {
			step = fmt.Sprint(r.o.Step)
		}
		// Colours stand in the last column alone: the others are aligned by their width.
		fmt.Fprintf(t, "%s\t%s%s\t%s\t%s\n", step, r.lead, r.o.nameBelow(r.above), p.age(r.o), r.o.end(colours))
		push(below[r.o.Object.UID], r.o, r.into)
	}
	_ = t.Flush() // w keeps the error
}

// nameBelow names an object below another: without the namespace that both are in, or that
// the other is.
func (o *PlannedObject) nameBelow(above *PlannedObject) string {
	name := o.Object.String()
	if ns := o.Object.Namespace; above != nil && (above.Object.Namespace == ns || above.Object.IsNamespace() && above.Object.Name == ns) {
		name = strings.TrimSuffix(name, " -n "+ns)
	}
	return name
}

func (p Plan) age(o *PlannedObject) string {
	if o.Created.IsZero() {
		return "-"
	}
	return ago(o.Created, p.Now)
}

// end says what becomes of an object that is deleted.
func (o *PlannedObject) end(colours Palette) string {
	text := o.Text
	if o.Held == string(plan.OtherFinalizer) {
		if names := o.otherFinalizers(); len(names) > 0 {
			text = strings.Replace(text, untilFinalizer, "until "+finalizersText(names)+" taken off", 1)
		}
	}
	switch {
	case o.Gone:
		return colours.Faint("has gone meanwhile")
	case o.Fate != string(plan.Gone):
		return colours.Bad("stays Terminating, " + text)
	case text != "":
		return "goes; " + text
	}
	return colours.Faint("goes")
}

func finalizersText(names []string) string {
	if len(names) == 1 {
		return "the finalizer " + visible(names[0]) + " is"
	}
	return "the finalizers " + visible(strings.Join(names, ", ")) + " are"
}

// otherFinalizers are the finalizers, as far as they have been read, that are not the
// collector's.
func (o *PlannedObject) otherFinalizers() []string {
	return slices.DeleteFunc(slices.Clone(o.Finalizers), func(f string) bool {
		return f == metav1.FinalizerDeleteDependents || f == metav1.FinalizerOrphanDependents
	})
}

// deleted is true of an object that goes, or is deleted and stays.
func (o *PlannedObject) deleted() bool { return o.Fate == "gone" || o.Fate == "stuck" }

// printStaying prints what is not deleted.
func (p Plan) printStaying(w *lines) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	any := false
	for i := range p.Objects {
		o := &p.Objects[i]
		if o.deleted() {
			continue
		}
		if !any {
			w.line("")
			fmt.Fprintln(t, "STAYS\tAGE\tWHAT BECOMES OF IT")
			any = true
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", o.Object, p.age(o), o.Text)
	}
	_ = t.Flush() // w keeps the error
}

// lines writes lines, and keeps the first error.
type lines struct {
	out io.Writer
	err error
}

func (w *lines) line(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }

// Write implements io.Writer. After an error it writes nothing more.
func (w *lines) Write(b []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	n, err := w.out.Write(b)
	w.err = err
	return n, err
}
