package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/pkg/gc/lint"
)

// LintVersion is the version of Lint's JSON: it grows when a field changes its meaning or goes.
const LintVersion = 1

// Lint is what is wrong with the references, rings and deletions of a cluster, or of manifests.
type Lint struct {
	Version int   `json:"version"`
	Basis   Basis `json:"basis"`
	Scope
	// Count is how many findings there are, of which Findings lists the first: those that will
	// be collected come first. ByCode counts all of them.
	Count    int               `json:"count"`
	ByCode   map[lint.Code]int `json:"byCode,omitempty"`
	ByEffect map[string]int    `json:"byEffect,omitempty"`
	Findings []Finding         `json:"findings,omitempty"`
	// Now is the clock that deletions were judged by.
	Now time.Time `json:"now"`
}

// Finding is something that probably is not what its author meant.
type Finding struct {
	Code   lint.Code `json:"code"`
	Effect string    `json:"effect"` // collected, stuck, dropped, kept or undecided
	Object Object    `json:"object"`
	// File is the manifest that the object is from.
	File string `json:"file,omitempty"`
	// Reference is the one that the finding is about, if it is about one.
	Reference *Reference `json:"reference,omitempty"`
	// Others are the other members of a ring, the object that has the owner's place, or the
	// dependents that are waited for.
	Others Objects `json:"others,omitzero"`
	// Finalizers are those of a deletion that is stuck, as far as they are known.
	Finalizers []string `json:"finalizers,omitempty"`
	// Text says what is wrong, Will what will happen, and Mend how to mend it.
	Text string `json:"text"`
	Will string `json:"will"`
	Mend string `json:"mend"`
}

// Reference is an ownerReference.
type Reference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
}

// LintOptions say what to look at.
type LintOptions struct {
	// Namespace is the one whose objects are looked at; empty for all, and for cluster-scoped objects.
	Namespace string
	// Limit is how many findings are listed; 0 for all.
	Limit int
}

// NewLint makes the report of what a linter finds among the objects that the options select. about, if it is not nil,
// returns what else is known of a finding's object.
func NewLint(in lint.Input, o LintOptions, b Basis, about func(graph.Key, *Finding)) Lint {
	if o.Namespace != "" {
		in.Only = func(r *graph.Record) bool { return r.Namespace == o.Namespace }
	}
	r := lint.Run(in)
	l := Lint{Version: LintVersion, Basis: b, Scope: Scope{o.Namespace, r.Judged}, Now: in.Now.UTC().Round(0), Count: len(r.Findings)}
	if r.Unverified > 0 {
		l.Basis.Incomplete = append(slices.Clip(l.Basis.Incomplete), Gap{
			What: count(r.Unverified, "reference"), Why: "nobody could tell whether the owner exists",
		})
	}
	listing := r.Findings
	if o.Limit > 0 {
		listing = listing[:min(len(listing), o.Limit)]
	}
	for i := range r.Findings {
		f := &r.Findings[i]
		if l.ByCode == nil {
			l.ByCode, l.ByEffect = map[lint.Code]int{}, map[string]int{}
		}
		l.ByCode[f.Code]++
		l.ByEffect[f.Effect.String()]++
	}
	for i := range listing {
		f := &listing[i]
		said := Finding{Code: f.Code, Effect: f.Effect.String(), Object: objectOf(f.Object.Key, f.Object.Record)}
		if f.Reference != nil {
			said.Reference = &Reference{f.Reference.APIVersion, f.Reference.Kind, f.Reference.Name, string(f.Reference.UID)}
		}
		if len(f.Others) > 0 {
			said.Others = Objects{Count: len(f.Others)}
			for _, n := range f.Others[:min(len(f.Others), listed)] {
				said.Others.First = append(said.Others.First, objectOf(n.Key, n.Record))
			}
		}
		said.Text, said.Will, said.Mend = words(f, b.Rules, l.Now)
		if about != nil {
			about(f.Object.Key, &said)
		}
		if f.Code != lint.StuckFinalizer {
			said.Finalizers = nil // they have nothing to do with it
		}
		l.Findings = append(l.Findings, said)
	}
	return l
}

// words says in sentences what is wrong, what will happen, and how to mend it.
func words(f *lint.Finding, rules string, now time.Time) (text, will, mend string) {
	r := printable(f.Reference)
	switch f.Code {
	case lint.WrongUID:
		text = fmt.Sprintf("its owner %s %s with the UID %s does not exist; that name has %s", r.Kind, r.Name, r.UID, occupant(f.Others[0]))
		mend = "set the reference's uid to the owner's present one, or remove the reference"
	case lint.Dangling:
		text = fmt.Sprintf("its owner %s %s with the UID %s does not exist", r.Kind, r.Name, r.UID)
		mend = "remove the reference to keep the object, or delete the object"
	case lint.WrongNamespace:
		text = fmt.Sprintf("its owner %s %s is in another namespace, where it can own nothing here", r.Kind, r.Name)
		mend = "remove the reference, or have an owner in the same namespace or a cluster-scoped one"
	case lint.ClusterScoped:
		text = fmt.Sprintf("it is cluster-scoped and its owner %s %s is of a namespaced kind: nobody can tell which namespace is meant", r.Kind, r.Name)
		mend = "remove the reference, or have a cluster-scoped owner"
	case lint.UnknownKind:
		text = fmt.Sprintf("its owner %s %s cannot be looked up: no server serves %s of %s", r.Kind, r.Name, r.Kind, r.APIVersion)
		mend = "install what defines that kind, or remove the reference"
	case lint.UnknownVersion:
		text = fmt.Sprintf("its owner %s %s cannot be looked up: %s is not served in the version %s", r.Kind, r.Name, r.Kind, r.APIVersion)
		mend = "set the reference's apiVersion to a version that is served"
	case lint.UnreachableRing:
		text = "it owns itself, and nothing else owns it"
		if len(f.Others) > 0 {
			text = fmt.Sprintf("it and %s own each other, and nothing else owns them", others(f))
		}
		mend = "remove one of the references, or delete the objects"
	case lint.Ring:
		text = "it owns itself"
		if len(f.Others) > 0 {
			text = fmt.Sprintf("it and %s own each other", others(f))
		}
		mend = "remove one of the references"
	case lint.TwoControllers:
		text = fmt.Sprintf("more than one reference has controller: true; that to %s %s is one too many", r.Kind, r.Name)
		mend = "set controller: true on one reference at the most"
	case lint.NeverCollected:
		if r != nil {
			text = fmt.Sprintf("its owner %s %s is of a kind that cannot be deleted, listed and watched: its end is not noticed", r.Kind, r.Name)
			mend = "have another owner, or none"
		} else {
			text = fmt.Sprintf("its foreground deletion waits for %s, whose other owner nobody can look up", others(f))
			mend = "set blockOwnerDeletion: false on that dependent's reference, or delete the dependent"
		}
	case lint.StuckFinalizer:
		text = fmt.Sprintf("it was deleted %s ago and is still there, and it is not the collector that keeps it", duration.HumanDuration(now.Sub(time.Unix(f.Object.Record.DeletedAt, 0))))
		mend = "start what answers for its finalizers, or the node that it runs on; if that does not exist any more, remove them"
	}
	return text, prospect(f, rules), mend
}

// printable returns a reference whose words can be shown; nil for nil.
func printable(r *graph.Reference) *graph.Reference {
	if r == nil {
		return nil
	}
	shown := *r
	shown.APIVersion, shown.Kind, shown.Name, shown.UID = visible(r.APIVersion), visible(r.Kind), visible(r.Name), types.UID(visible(string(r.UID)))
	return &shown
}

// occupant says which object has an owner's place.
func occupant(n graph.Node) string {
	o := objectOf(n.Key, n.Record)
	if strings.HasPrefix(string(o.UID), lint.NewUID) {
		return fmt.Sprintf("%s, which gets a UID of its own when it is created", o)
	}
	return fmt.Sprintf("%s with the UID %s", o, visible(string(o.UID)))
}

// prospect says what will happen.
func prospect(f *lint.Finding, rules string) string {
	switch f.Effect {
	case lint.Collected:
		return "the object will be collected: none of its owners exists"
	case lint.Dropped:
		return "the reference will be removed; another owner keeps the object"
	case lint.Undecided:
		return "nothing is decided before another owner has been read"
	case lint.Stuck:
		return "the deletion will not end by itself"
	}
	switch f.Code {
	case lint.Ring, lint.UnreachableRing:
		will := "nothing collects them by themselves"
		if f.Code == lint.Ring {
			will = "they are kept also when their other owner goes"
		}
		if rules == RulesOfKubernetes {
			return will + "; deleted in the foreground, they may wait for each other for ever"
		}
		return will
	case lint.TwoControllers:
		return "the API server refuses such an object"
	}
	return "the object is kept, also when that owner goes"
}

// others names the other objects of a finding.
func others(f *lint.Finding) string {
	o := Objects{Count: len(f.Others)}
	for _, n := range f.Others[:min(len(f.Others), 2)] {
		o.First = append(o.First, objectOf(n.Key, n.Record))
	}
	return o.text(2)
}

// Fails tells whether there is a finding of one of the codes, or any if none is given.
func (l Lint) Fails(codes []lint.Code) bool {
	if len(codes) == 0 {
		return l.Count > 0
	}
	return slices.ContainsFunc(codes, func(c lint.Code) bool { return l.ByCode[c] > 0 })
}

// String returns the reference as people write it.
func (r Reference) String() string {
	return visible(strings.TrimSpace(fmt.Sprintf("%s %s %s", r.APIVersion, r.Kind, r.Name)))
}
