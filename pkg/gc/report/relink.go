package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/pkg/gc/relink"
)

// Relink is which dangling references are made to name the objects that have their owners' places, and what came of it.
type Relink struct {
	// Version is that of these fields: some may be added to a version, none is taken away or changed.
	Version int   `json:"version"`
	Basis   Basis `json:"basis"`
	Scope
	// DryRun is true if nothing was to be changed.
	DryRun bool `json:"dryRun,omitempty"`
	// Links are in the order in which they are made.
	Links []Link `json:"links,omitempty"`
	// Left are the dangling references that are not touched.
	Left []LeftReference `json:"left,omitempty"`
	// Done, Unneeded and Failed count the links by their result.
	Done     int `json:"done"`
	Unneeded int `json:"unneeded,omitempty"`
	Failed   int `json:"failed,omitempty"`
}

// RelinkVersion is the Version of a Relink.
const RelinkVersion = 1

// The results of a link.
const (
	// LinkDone: the reference names the present owner.
	LinkDone = "done"
	// LinkUnneeded: the object, or the reference, has gone meanwhile.
	LinkUnneeded = "unneeded"
	// LinkFailed: the error says why.
	LinkFailed = "failed"
)

// Link is one reference that is to name the object that has its owner's place.
type Link struct {
	Object Object `json:"object"`
	// File is the manifest that the object is from.
	File      string    `json:"file,omitempty"`
	Reference Reference `json:"reference"`
	Owner     Object    `json:"owner"`
	// Result is done, unneeded or failed; empty if nothing has been done yet.
	Result string `json:"result,omitempty"`
	Error  string `json:"error,omitempty"`
}

// LeftReference is a dangling reference that is not touched.
type LeftReference struct {
	Object    Object        `json:"object"`
	File      string        `json:"file,omitempty"`
	Reference Reference     `json:"reference"`
	Reason    relink.Reason `json:"reason"`
	// Others are the objects between which nobody can choose, or the one that is being deleted.
	Others []Object `json:"others,omitempty"`
	// Text says why in a sentence.
	Text string `json:"text"`
}

// NewRelink makes the report of a plan for the dangling references of some objects. fileOf, if it is not nil, says which manifest an object is from.
func NewRelink(p relink.Plan, s Scope, b Basis, fileOf func(graph.Key) string) Relink {
	r := Relink{Version: RelinkVersion, Basis: b, Scope: s}
	from := func(n graph.Node) (o Object, file string) {
		o = ObjectOf(n)
		if fileOf != nil {
			file = fileOf(n.Key)
		}
		return withoutNewUID(o), file
	}
	for _, level := range p.Levels {
		for _, c := range level {
			for _, l := range c.Links {
				o, file := from(c.Object)
				r.Links = append(r.Links, Link{Object: o, File: file, Reference: referenceOf(l.Reference), Owner: ObjectOf(l.Owner)})
			}
		}
	}
	for _, l := range p.Left {
		o, file := from(l.Object)
		left := LeftReference{Object: o, File: file, Reference: referenceOf(l.Reference), Reason: l.Reason, Text: leftText(l)}
		for _, n := range l.Others {
			left.Others = append(left.Others, withoutNewUID(ObjectOf(n)))
		}
		r.Left = append(r.Left, left)
	}
	return r
}

func referenceOf(r graph.Reference) Reference {
	return Reference{r.APIVersion, r.Kind, r.Name, string(r.UID)}
}

func leftText(l relink.Left) string {
	named := printable(&l.Reference)
	owner := fmt.Sprintf("its owner %s %s", named.Kind, named.Name)
	others := objectsText(namesOf(l.Others))
	switch l.Reason {
	case relink.Missing:
		return owner + " does not exist, and no other object has its place"
	case relink.BeingDeleted:
		return fmt.Sprintf("the %s that has its owner's place is being deleted", named.Kind)
	case relink.Elsewhere:
		return fmt.Sprintf("nobody can tell which owner is meant: the reference's UID is that of another object than its words name (%s)", others)
	case relink.NotCreated:
		return owner + " is in these files and not in the cluster: it gets its UID when it is created; apply it, then relink again"
	}
	if l.Err != nil {
		return fmt.Sprintf("%s could not be read: %s", owner, oneLine(l.Err.Error()))
	}
	return owner + " could not be read"
}

func namesOf(nodes []graph.Node) (all []Object) {
	for _, n := range nodes {
		all = append(all, ObjectOf(n))
	}
	return all
}

// Count counts the links by their result.
func (r *Relink) Count() {
	r.Done, r.Unneeded, r.Failed = 0, 0, 0
	for _, l := range r.Links {
		switch l.Result {
		case LinkDone:
			r.Done++
		case LinkUnneeded:
			r.Unneeded++
		case LinkFailed:
			r.Failed++
		}
	}
}

// Print writes it for people.
func (r Relink) Print(out io.Writer) error { return r.print(out, 0) }

// PrintPlan writes what is to be done, before it is: at most so many references of each kind, or all if limit is 0.
func (r Relink) PrintPlan(out io.Writer, limit int) error {
	if err := r.Basis.Print(out); err != nil {
		return err
	}
	return r.print(out, limit)
}

func (r Relink) print(out io.Writer, limit int) error {
	var b strings.Builder
	head := func(text string, n int) {
		if n > 0 {
			fmt.Fprintf(&b, "%s (%d)\n", text, n)
		}
	}
	more := func(all int) int {
		if limit == 0 || all <= limit {
			return all
		}
		return limit
	}
	omitted := func(all int) {
		if n := all - more(all); n > 0 {
			fmt.Fprintf(&b, "  and %d more; --limit=0 shows all\n", n)
		}
		if all > 0 {
			fmt.Fprintln(&b)
		}
	}
	if r.begun() {
		if r.Failed > 0 {
			head("FAILED", r.Failed)
			for _, l := range r.Links {
				if l.Result == LinkFailed {
					l.print(&b)
					fmt.Fprintf(&b, "      %s\n", oneLine(l.Error))
				}
			}
			fmt.Fprintln(&b)
		}
		fmt.Fprintf(&b, "%s%s relinked", r.place(), count(r.Done, "reference"))
		if r.Unneeded > 0 {
			fmt.Fprintf(&b, ", %d no longer there", r.Unneeded)
		}
		if r.Failed > 0 {
			fmt.Fprintf(&b, ", %d failed", r.Failed)
		}
		fmt.Fprintf(&b, ", %d left as they are%s\n", len(r.Left), r.elsewhere())
		_, err := io.WriteString(out, b.String())
		return err
	}
	head("TO BE RELINKED, owners first", len(r.Links))
	for _, l := range r.Links[:more(len(r.Links))] {
		l.print(&b)
	}
	omitted(len(r.Links))
	head("LEFT AS THEY ARE", len(r.Left))
	for _, l := range r.Left[:more(len(r.Left))] {
		fmt.Fprintf(&b, "  %s  %s\n", l.Object, l.Reason)
		if l.File != "" {
			fmt.Fprintf(&b, "      in %s\n", l.File)
		}
		fmt.Fprintf(&b, "      %s\n", l.Text)
	}
	omitted(len(r.Left))
	if len(r.Links)+len(r.Left) == 0 && len(r.Basis.Incomplete) > 0 {
		fmt.Fprintf(&b, "no reference of %s that could be read has to be relinked; the others were not looked at%s\n", r.objects(), r.elsewhere())
	} else if len(r.Links)+len(r.Left) == 0 {
		fmt.Fprintf(&b, "no reference of %s has to be relinked%s\n", r.objects(), r.elsewhere())
	} else {
		fmt.Fprintf(&b, "%s%s to be relinked, %d left as they are%s\n", r.place(), count(len(r.Links), "reference"), len(r.Left), r.elsewhere())
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// begun is true once a link has a result.
func (r *Relink) begun() bool { return r.Done+r.Unneeded+r.Failed > 0 }

func (l *Link) print(b *strings.Builder) {
	fmt.Fprintf(b, "  %s\n", l.Object)
	if l.File != "" {
		fmt.Fprintf(b, "      in %s\n", l.File)
	}
	fmt.Fprintf(b, "      owner %s: UID %s, was %s\n", l.Owner, visible(string(l.Owner.UID)), visible(l.Reference.UID))
}
