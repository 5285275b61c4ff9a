package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Release is what taking a finalizer off an object by hand gives up, and, once Released is true, what came of it.
type Release struct {
	Version   int    `json:"version"`
	Object    Object `json:"object"`
	Finalizer string `json:"finalizer"`
	// GivesUp says what nobody does any more for the object or its dependents.
	GivesUp string `json:"givesUp"`
	// Dependents are those that name the object as their owner; nil if no collector could be asked.
	Dependents *Objects `json:"dependents,omitempty"`
	Released   bool     `json:"released"`
	// Left are the finalizers that still hold the object; it goes when there is none.
	Left []string `json:"left,omitempty"`
}

// ReleaseVersion is that of the JSON of a Release. Fields may be added to a version, none is taken away or changed.
const ReleaseVersion = 1

// NewRelease says what there is to say before a finalizer is taken off an object that carries finalizers.
// dependents is nil if nobody knows them.
func NewRelease(o Object, finalizers []string, finalizer string, dependents *Objects) Release {
	return Release{
		Version: ReleaseVersion, Object: o, Finalizer: finalizer, GivesUp: givesUp(finalizer, dependents), Dependents: dependents,
		Left: slices.DeleteFunc(slices.Clone(finalizers), func(f string) bool { return f == finalizer }),
	}
}

// givesUp says what taking a finalizer off gives up.
func givesUp(finalizer string, dependents *Objects) string {
	who := "its dependents"
	if dependents != nil {
		if dependents.Count == 0 {
			who = "dependents that nobody has seen yet"
		} else {
			who = fmt.Sprintf("its %s (%s)", count(dependents.Count, "dependent"), dependents.text(listed))
		}
	}
	switch finalizer {
	case metav1.FinalizerDeleteDependents:
		return "the foreground deletion: the object no longer waits for " + who + "; the collector deletes them after it, in the background"
	case metav1.FinalizerOrphanDependents:
		return "the orphaning: " + who + " were to stay; those that still name the object as their only owner when it goes are DELETED by the collector"
	case "kubernetes": // in the spec of a namespace, corev1.FinalizerKubernetes
		return "the emptying of the namespace: it goes at once, and what is still in it stays in the store, where no client can reach it until a namespace of that name is created again"
	}
	return "the work of the controller that put " + finalizer + " there and has not reported it done: whatever that controller would clean up, in the cluster or outside it, may be left behind for good"
}

// Print writes it for people.
func (r Release) Print(out io.Writer) error {
	var err error
	switch left := strings.Join(r.Left, ", "); {
	case !r.Released:
		_, err = fmt.Fprintf(out, "object      %s\nfinalizer   %s\ngives up    %s\nstill held  %s\n", r.Object, r.Finalizer, r.GivesUp,
			cmp.Or(left, "by nothing else: the object goes at once"))
	case left != "":
		_, err = fmt.Fprintf(out, "released %s from %s; it stays until these finalizers go: %s\n", r.Object, r.Finalizer, left)
	default:
		_, err = fmt.Fprintf(out, "released %s from %s; nothing holds it any more\n", r.Object, r.Finalizer)
	}
	return err
}
