package report

import "fmt"

// Scope says which of the objects that a report is made from it judges. With a namespace it judges no cluster-scoped object.
type Scope struct {
	// Namespace is the one whose objects are judged; empty for all objects.
	Namespace string `json:"namespace,omitempty"`
	// Judged is how many objects are judged.
	Judged int `json:"judged"`
}

// objects names what is judged.
func (s Scope) objects() string {
	if s.Namespace == "" {
		return count(s.Judged, "object")
	}
	return fmt.Sprintf("the %s in namespace %s", count(s.Judged, "object"), visible(s.Namespace))
}

// place begins a sentence that does not count the objects; it is empty if all are judged.
func (s Scope) place() string {
	if s.Namespace == "" {
		return ""
	}
	return fmt.Sprintf("in namespace %s: ", visible(s.Namespace))
}

// elsewhere ends a sentence that is about one namespace, so that nobody takes it for the whole cluster's.
func (s Scope) elsewhere() string {
	if s.Namespace == "" {
		return ""
	}
	return "; -A looks at all namespaces and at cluster-scoped objects"
}
