package scenarios

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/tests/fakeapi"
)

// apiVersions are the preferred versions of the kinds outside v1. A reference may
// name a kind that is not served.
var apiVersions = map[string]string{
	"Deployment": "apps/v1", "ReplicaSet": "apps/v1", "Job": "batch/v1", "Widget": "example.com/v1", "Gadget": "example.com/v1",
}

func apiVersion(kind string) string {
	if v, ok := apiVersions[kind]; ok {
		return v
	}
	return "v1"
}

var objectForm = regexp.MustCompile(`^([a-z.]+)/(?:([a-z0-9]+)/)?([a-z0-9.-]+)((?: [A-Za-z]+)*)(?: \(([^)]*)\))?(?: <- (.*))?$`)

// clusterScoped are the resources whose objects have no namespace.
var clusterScoped = []string{"nodes", "gadgets", "customresourcedefinitions"}

// parsed is an object as a scenario writes it.
type parsed struct {
	resource string
	words    []string // between the name and the finalizers
	meta     metav1.ObjectMeta
}

func parse(text string) (parsed, error) {
	m := objectForm.FindStringSubmatch(text)
	if m == nil {
		return parsed{}, fmt.Errorf("%q is no object", text)
	}
	p := parsed{resource: m[1], words: strings.Fields(m[4]), meta: metav1.ObjectMeta{Namespace: m[2], Name: m[3]}}
	if p.meta.Namespace == "" && !slices.Contains(clusterScoped, p.resource) {
		p.meta.Namespace = "ns"
	}
	if m[5] != "" {
		p.meta.Finalizers = strings.Split(m[5], ", ")
	}
	if m[6] == "" {
		return p, nil
	}
	for _, text := range strings.Split(m[6], ", ") {
		r, err := parseReference(text)
		if err != nil {
			return parsed{}, fmt.Errorf("%q: %w", text, err)
		}
		p.meta.OwnerReferences = append(p.meta.OwnerReferences, r)
	}
	return p, nil
}

func parseReference(text string) (metav1.OwnerReference, error) {
	words := strings.Fields(text)
	kind, name, ok := strings.Cut(words[0], "/")
	if !ok {
		return metav1.OwnerReference{}, fmt.Errorf("it is no KIND/NAME")
	}
	r := metav1.OwnerReference{APIVersion: apiVersion(kind), Kind: kind, Name: name, UID: types.UID(name + "-1")}
	yes, no := true, false
	for _, w := range words[1:] {
		switch key, value, _ := strings.Cut(w, "="); key {
		case "blocking":
			r.BlockOwnerDeletion = &yes
		case "unblocked":
			r.BlockOwnerDeletion = &no
		case "controller":
			r.Controller = &yes
		case "uid":
			r.UID = types.UID(value)
		case "version":
			r.APIVersion = value
		default:
			return r, fmt.Errorf("%q is no flag", w)
		}
	}
	return r, nil
}

// text writes an object as scenarios do.
func text(o fakeapi.Object) string {
	var b strings.Builder
	b.WriteString(nameOf(o))
	if o.DeletionTimestamp != nil {
		b.WriteString(" deleting")
	}
	if len(o.Finalizers) > 0 {
		fmt.Fprintf(&b, " (%s)", strings.Join(o.Finalizers, ", "))
	}
	for i, r := range o.OwnerReferences {
		b.WriteString([]string{" <- ", ", "}[min(i, 1)])
		fmt.Fprintf(&b, "%s/%s", r.Kind, r.Name)
		if uid := string(r.UID); uid != r.Name+"-1" {
			b.WriteString(" uid=" + uid)
		}
		if r.APIVersion != apiVersion(r.Kind) {
			b.WriteString(" version=" + r.APIVersion)
		}
		switch graph.ReferenceOf(r).BlockOwnerDeletion {
		case graph.True:
			b.WriteString(" blocking")
		case graph.False:
			b.WriteString(" unblocked")
		}
		if r.Controller != nil {
			b.WriteString(" controller")
		}
	}
	return b.String()
}

func nameOf(o fakeapi.Object) string {
	if o.Namespace == "" || o.Namespace == "ns" {
		return o.Resource.Name + "/" + o.Name
	}
	return o.Resource.Name + "/" + o.Namespace + "/" + o.Name
}
