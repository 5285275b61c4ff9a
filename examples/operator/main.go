// Command operator is an example of an operator that leaves all deletion of what it makes to the garbage collector, and of
// tests that see that deletion happen: operator_test.go. README.md tells what they replace.
package main

import (
	"context"
	"log"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	m, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{Scheme: newScheme()})
	if err != nil {
		log.Fatal(err)
	}
	unpublish := func(_ context.Context, page string) error {
		log.Printf("page %s is no longer published", page)
		return nil
	}
	if err := setUp(m, unpublish); err != nil {
		log.Fatal(err)
	}
	if err := m.Start(ctrl.SetupSignalHandler()); err != nil {
		log.Fatal(err)
	}
}

func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(s))
	addTypes(s)
	return s
}

// setUp adds the operator's controllers and its webhook to the manager.
func setUp(m ctrl.Manager, unpublish func(ctx context.Context, page string) error) error {
	if err := (&siteReconciler{m.GetClient()}).setUp(m); err != nil {
		return err
	}
	if err := (&pageReconciler{m.GetClient(), unpublish}).setUp(m); err != nil {
		return err
	}
	return siteValidator{}.setUp(m)
}
