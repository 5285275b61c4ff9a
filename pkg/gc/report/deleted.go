package report

import (
	"fmt"
	"io"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
)

// Deleted is what came of a deletion that a command has made.
type Deleted struct {
	// Version is that of these fields: some may be added to a version, none is taken away or changed.
	Version int    `json:"version"`
	Server  string `json:"server"`
	// Policy is the propagation policy that was asked for; empty for each resource's own default.
	Policy string `json:"policy,omitempty"`
	// Requested are the objects whose DELETE was accepted or that had gone by then, and Failed all others that were asked for.
	Requested []Object     `json:"requested,omitempty"`
	Failed    []NotDeleted `json:"failed,omitempty"`
	// Gone counts the objects that were waited for and are gone, those that were asked for among them, and Left those
	// that are not. Both are 0 if the command did not wait.
	Gone    int     `json:"gone,omitempty"`
	Left    int     `json:"left,omitempty"`
	Seconds float64 `json:"seconds"`
	// Held is true if the collector was paused, or none ran: what depends on the objects does not follow before one works.
	Held bool `json:"held,omitempty"`
}

// DeletedVersion is the Version of a Deleted.
const DeletedVersion = 1

// NotDeleted is an object whose DELETE was refused, not sent or not answered.
type NotDeleted struct {
	Object Object `json:"object"`
	Error  string `json:"error"`
	// Unknown is true if no answer came, so that it may have been deleted.
	Unknown bool `json:"unknown,omitempty"`
}

// Print writes it for people.
func (d Deleted) Print(out io.Writer) error {
	took := duration.HumanDuration(time.Duration(d.Seconds * float64(time.Second)))
	var err error
	switch {
	case len(d.Requested) == 0 && slices.ContainsFunc(d.Failed, func(n NotDeleted) bool { return n.Unknown }):
		_, err = fmt.Fprintln(out, "nothing is known to have been deleted")
	case len(d.Requested) == 0:
		_, err = fmt.Fprintln(out, "nothing was deleted")
	case d.Gone+d.Left == 0 && d.Held:
		_, err = fmt.Fprintf(out, "deleted %s; what depends on them does not follow before a collector works\n", objectsText(d.Requested))
	case d.Gone+d.Left == 0:
		_, err = fmt.Fprintf(out, "deleted %s; what depends on them follows\n", objectsText(d.Requested))
	case d.Left > 0:
		_, err = fmt.Fprintf(out, "%s gone in %s, %d left\n", count(d.Gone, "object"), took, d.Left)
	default:
		_, err = fmt.Fprintf(out, "%s gone in %s\n", count(d.Gone, "object"), took)
	}
	return err
}

func objectsText(all []Object) string { return Objects{Count: len(all), First: all}.text(3) }
