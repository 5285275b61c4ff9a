package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"
)

// Print writes the plan for people: counts, what goes as a tree, what stays, and what
// cannot be foretold.
func (p Plan) Print(out io.Writer) error {
	w := &lines{out: out}
	if err := p.Basis.Print(w); err != nil {
		return err
	}
	if p.Pause != nil {
		w.line("The collector is paused: %s.", pauseText(p.Pause, p.Now))
		w.line("")
	}
	w.line("%s", p.summary())
	if len(p.Counts) > 0 {
		w.line("")
		p.printCounts(w)
	}
	p.printTree(w)
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
func (p Plan) printTree(w *lines) {
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
	fmt.Fprintln(t, "STEP\tDELETED\tWHAT BECOMES OF IT")
	// A tree may be deep: what is to be printed next is kept in a list, not on the stack.
	type row struct {
		o          *PlannedObject
		lead, into string // before its name, and before those below it
	}
	var next []row
	push := func(children []*PlannedObject, into string, top bool) {
		for i := len(children) - 1; i >= 0; i-- {
			r := row{o: children[i], lead: into + "├─ ", into: into + "│  "}
			if i == len(children)-1 {
				r.lead, r.into = into+"└─ ", into+"   "
			}
			if top {
				r.lead, r.into = "", ""
			}
			next = append(next, r)
		}
	}
	push(roots, "", true)
	for len(next) > 0 {
		r := next[len(next)-1]
		next = next[:len(next)-1]
		step := "-"
		if r.o.Step > 0 {
			step = fmt.Sprint(r.o.Step)
		}
		text := "goes"
		switch {
		case r.o.Fate != "gone":
			text = "stays Terminating, " + r.o.Text
		case r.o.Text != "":
			text += "; " + r.o.Text
		}
		fmt.Fprintf(t, "%s\t%s%s\t%s\n", step, r.lead, r.o.Object, text)
		push(below[r.o.Object.UID], r.into, false)
	}
	_ = t.Flush() // w keeps the error
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
			fmt.Fprintln(t, "STAYS\tWHAT BECOMES OF IT")
			any = true
		}
		fmt.Fprintf(t, "%s\t%s\n", o.Object, o.Text)
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
