package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/reap-dev/reap/pkg/gc/pause"
)

// Print writes the status for people.
func (s Status) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if !s.Running {
		fmt.Fprintf(w, "collector\tnot running: %s\n", s.Absent)
		s.writeControllers(w)
		return w.Flush()
	}
	fmt.Fprintf(w, "collector\trunning for %s, %d of %d workers busy\n", ago(s.Since, s.Now), s.Busy, s.Workers)
	if s.Pause != nil {
		fmt.Fprintf(w, "paused\t%s\n", pauseText(s.Pause, s.Now))
	}
	if g := s.Guard; g != nil {
		fmt.Fprintf(w, "guard\t%s\n", g.text())
	}
	fmt.Fprintf(w, "graph\t%s\n", s.graphText())
	fmt.Fprintf(w, "queues\t%s\n", s.queuesText())
	fmt.Fprintf(w, "monitors\t%s\n", monitorsText(s.Monitors))
	fmt.Fprintf(w, "collected\t%s\n", count(s.Collected, "object"))
	fmt.Fprintf(w, "waiting\t%s\n", count(s.WaitingCount, "deletion"))
	for _, m := range s.Monitors {
		if m.Error != "" {
			fmt.Fprintf(w, "cannot list\t%s for %s: %s\n", m.Resource, ago(m.Since, s.Now), oneLine(m.Error))
		}
	}
	s.writeControllers(w)
	for _, h := range s.Holds {
		fmt.Fprintf(w, "holds orphaning\t%s\n", h.text())
	}
	for _, f := range s.Failing {
		fmt.Fprintf(w, "failing\t%s for %s, %s: %s\n", f.Object, ago(f.Since, s.Now), count(f.Failures, "attempt"), oneLine(f.Error))
	}
	if more := s.FailingCount - len(s.Failing); more > 0 {
		fmt.Fprintf(w, "\tand %d more\n", more)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(s.Cascades) > 0 {
		fmt.Fprintln(w)
		fmt.Fprintln(w, "CASCADE\tPOLICY\tFOR\tDELETED\tLEFT\tRATE\tHELD BY")
		for _, c := range s.Cascades {
			held := "-"
			if c.HeldByCount > 0 {
				held = heldObjects(c.HeldBy, c.HeldByCount).text(2)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%.0f/s\t%s\n", c.Root, c.Policy, ago(c.Began, s.Now), c.Deleted, c.Left, c.PerSecond, held)
		}
		if more := s.CascadeCount - len(s.Cascades); more > 0 {
			fmt.Fprintf(w, "and %d more\t\t\t\t\t\t\n", more)
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	if len(s.Waiting) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	fmt.Fprintln(w, "WAITING\tFOR\tPOLICY\tDEADLINE\tBLOCKED BY")
	for _, d := range s.Waiting {
		deadline := "-"
		if !d.Deadline.IsZero() {
			deadline = until(d.Deadline, s.Now)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", d.Object, ago(d.DeletedAt, s.Now), d.Policy, deadline, d.blockers())
	}
	if more := s.WaitingCount - len(s.Waiting); more > 0 {
		fmt.Fprintf(w, "and %d more\t\t\t\t\n", more)
	}
	return w.Flush()
}

// writeControllers names the controllers that cannot start.
func (s Status) writeControllers(w io.Writer) {
	for _, c := range s.FailingControllers {
		fmt.Fprintf(w, "cannot start\tcontroller %s, %s since %s: %s\n", c.Name, count(c.Attempts, "attempt"), c.Since.UTC().Format(time.RFC3339), oneLine(c.Error))
	}
}

// Print writes the explanation for people.
func (y Why) Print(out io.Writer) error {
	if err := y.Basis.Print(out); err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "object\t%s\n", y.Object)
	if !y.DeletedAt.IsZero() {
		fmt.Fprintf(w, "deleted\t%s ago\n", ago(y.DeletedAt, y.Now))
	}
	if len(y.Finalizers) > 0 {
		fmt.Fprintf(w, "finalizers\t%s\n", visible(strings.Join(y.Finalizers, ", ")))
	}
	fmt.Fprintf(w, "reason\t%s (%s)\n", y.Text, y.Reason)
	if y.BlockedBy.Count > 0 {
		fmt.Fprintf(w, "blocked by\t%s\n", y.BlockedBy.text(listed))
		if y.Deadline.IsZero() && y.Basis.Source == FromListing && y.Basis.Rules == RulesOfReap {
			fmt.Fprintf(w, "deadline\tunknown: only the collector itself can tell\n")
		} else if y.Deadline.IsZero() {
			fmt.Fprintf(w, "deadline\tnone: it waits until they are gone\n")
		} else {
			fmt.Fprintf(w, "deadline\t%s, unless a dependent goes before\n", until(y.Deadline, y.Now))
		}
	}
	for i, h := range y.HeldBy {
		fmt.Fprintf(w, "%s\t%s\n", map[bool]string{true: "held by"}[i == 0], h.text(y.BlockedBy.Count))
	}
	if more := y.HeldByCount - len(y.HeldBy); more > 0 {
		fmt.Fprintf(w, "\tand %d more\n", more)
	}
	if len(y.Ring) > 0 {
		fmt.Fprintf(w, "ring\tall that it waits for waits for one another: %s\n", Objects{Count: len(y.Ring), First: y.Ring}.text(listed))
	}
	if y.Failed != "" {
		fmt.Fprintf(w, "failed\tthe last attempt: %s; it will be made again\n", oneLine(y.Failed))
	}
	if c := y.Contents; c != nil {
		c.print(w)
	}
	next := y.Action
	if next == "nothing" {
		next = "nothing, until something changes"
		if !y.Again.IsZero() {
			next += " or " + until(y.Again, y.Now)
		}
	}
	if y.Pause != nil {
		if y.Action != "nothing" {
			next = "nothing while the collector is paused; " + next + " once the pause ends"
		}
		fmt.Fprintf(w, "paused\t%s\n", pausedFor(y.Pause, y.Now))
	}
	fmt.Fprintf(w, "next\t%s\n", next)
	dependents := "none"
	if y.Dependents.Count > 0 {
		dependents = y.Dependents.text(listed)
	}
	fmt.Fprintf(w, "dependents\t%s\n", dependents)
	if err := w.Flush(); err != nil {
		return err
	}
	if len(y.Owners) > 0 {
		if err := y.printOwners(out); err != nil {
			return err
		}
	}
	return printCommands(out, y.Commands)
}

func (y Why) printOwners(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w)
	fmt.Fprintln(w, "OWNER\tUID\tBLOCKS\tSTATE\tWHAT IS KNOWN")
	for _, o := range y.Owners {
		fmt.Fprintf(w, "%s\t%s\t%t\t%s\t%s\n", visible(o.APIVersion+" "+o.Kind+" "+o.Name), visible(o.UID), o.BlockOwnerDeletion, o.State, o.Text)
	}
	return w.Flush()
}

func printCommands(out io.Writer, commands []Command) error {
	if len(commands) == 0 {
		return nil
	}
	text := "\nTO FREE IT, at a price:\n"
	for _, c := range commands {
		text += "  " + c.Command + "\n      " + c.Text + "\n"
	}
	_, err := io.WriteString(out, text)
	return err
}

// text says what holds, and how many of an object's direct blockers, of so many, it is behind.
func (h Holder) text(blockers int) string {
	text := h.Object.String()
	switch {
	case h.Holds > 1 && h.Holds == blockers:
		text += fmt.Sprintf(", which all %d blockers wait for", blockers)
	case h.Holds > 1:
		text += fmt.Sprintf(", which %d blockers wait for", h.Holds)
	}
	if len(h.Finalizers) > 0 {
		return text + ": it has been deleted, and a finalizer keeps it: " + visible(strings.Join(h.Finalizers, ", "))
	}
	return text + ": " + h.Text
}

// heldObjects names holders as objects.
func heldObjects(some []Holder, count int) Objects {
	o := Objects{Count: count}
	for _, h := range some {
		o.First = append(o.First, h.Object)
	}
	return o
}

// print writes what is in a namespace as lines of an explanation.
func (c *Contents) print(w io.Writer) {
	fmt.Fprintf(w, "contents\t%s\n", c.text())
	for i, h := range c.HeldBy {
		fmt.Fprintf(w, "%s\t%s\n", map[bool]string{true: "held by"}[i == 0], h.text(0))
	}
	if more := c.HeldByCount - len(c.HeldBy); more > 0 {
		fmt.Fprintf(w, "\tand %d more\n", more)
	}
	if c.Waiting > 0 {
		fmt.Fprintf(w, "waiting\t%s for their own dependents, and go after those\n", count(c.Waiting, "object"))
	}
	for _, s := range c.Conditions {
		fmt.Fprintf(w, "status\t%s\n", oneLine(s))
	}
	for _, s := range c.Unavailable {
		fmt.Fprintf(w, "unavailable\tAPIService %s: nobody can tell what is left of its resources\n", s)
	}
}

// text names the first few and counts the rest.
func (o Objects) text(most int) string {
	var names []string
	for _, f := range o.First[:min(most, len(o.First))] {
		names = append(names, f.String())
	}
	text := strings.Join(names, ", ")
	if more := o.Count - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func monitorsText(all []Monitor) string {
	states := map[string]int{}
	for _, m := range all {
		states[m.State]++
	}
	text := fmt.Sprintf("%d synced", states["synced"])
	for _, s := range []string{"syncing", "failing", "draining"} {
		if n := states[s]; n > 0 {
			text += fmt.Sprintf(", %d %s", n, s)
		}
	}
	return text
}

func pauseText(p *pause.State, now time.Time) string {
	if p.By == "" && p.Since.IsZero() {
		return pausedFor(p, now) // it is no pause of anybody's, and ends by itself
	}
	return pausedFor(p, now) + "; reap resume ends it"
}

// pausedFor says for how long a pause has lasted, by whom and why.
func pausedFor(p *pause.State, now time.Time) string {
	text := "nothing is written"
	if !p.Since.IsZero() {
		text = "nothing has been written for " + ago(p.Since, now)
	}
	if p.By != "" {
		text += ", by " + oneLine(p.By)
	}
	if p.Reason != "" {
		text += ": " + oneLine(p.Reason)
	}
	return text
}

func ago(t, now time.Time) string { return duration.HumanDuration(max(0, now.Sub(t))) }

func until(t, now time.Time) string {
	if !t.After(now) {
		return "now"
	}
	return "in " + duration.HumanDuration(t.Sub(now))
}

func count[N int | int64](n N, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// text says how near a guard is to its limit, and what it has let through.
func (g *Guard) text() string {
	within := duration.HumanDuration(time.Duration(g.WithinSeconds * float64(time.Second)))
	text := fmt.Sprintf("%d of %d deletions on lookups alone in the last %s", g.Deleted.Count, g.Limit, within)
	if g.Next == nil {
		return text
	}
	return fmt.Sprintf("%s: %s; %s would have been next. 'reap lint -A' says what else would go, 'reap resume' lets it", text, g.Deleted.text(listed), g.Next)
}
