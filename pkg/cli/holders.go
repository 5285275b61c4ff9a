package cli

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/gc/report"
)

// readHolders adds to an explanation what only the API server tells: the finalizers of what holds the object, and of a
// namespace why its deletion does not get on. What cannot be read is left out: the explanation holds without it.
func (c *connection) readHolders(ctx context.Context, w *report.Why) {
	c.readFinalizers(ctx, w.HeldBy)
	if w.Contents == nil {
		return
	}
	c.readFinalizers(ctx, w.Contents.HeldBy)
	client, err := kubernetes.NewForConfig(c.config)
	if err != nil || w.DeletedAt.IsZero() {
		return
	}
	ns, err := client.CoreV1().Namespaces().Get(ctx, w.Object.Name, metav1.GetOptions{})
	if err != nil {
		return
	}
	undiscovered := false
	for _, cond := range ns.Status.Conditions {
		if cond.Status == corev1.ConditionTrue {
			w.Contents.Conditions = append(w.Contents.Conditions, fmt.Sprintf("%s: %s", cond.Type, cond.Message))
			undiscovered = undiscovered || cond.Type == corev1.NamespaceDeletionDiscoveryFailure
		}
	}
	for _, f := range ns.Spec.Finalizers {
		if f != corev1.FinalizerKubernetes {
			w.Contents.Conditions = append(w.Contents.Conditions, fmt.Sprintf("spec.finalizers has %s, which its controller has to take off", f))
			w.Contents.SpecFinalizers = append(w.Contents.SpecFinalizers, string(f))
		}
	}
	if undiscovered {
		w.Contents.Unavailable = c.unavailable(ctx)
	}
}

// readFinalizers reads the finalizers of holders that have been deleted.
func (c *connection) readFinalizers(ctx context.Context, held []report.Holder) {
	client, err := metadata.NewForConfig(c.config)
	if err != nil || len(held) == 0 {
		return
	}
	served, err := newServed(c.config)
	if err != nil {
		return
	}
	for i := range held {
		o := held[i].Object
		gvr, err := served.mapper.ResourceFor(o.GroupResource().WithVersion(""))
		if err != nil {
			continue
		}
		m, err := client.Resource(gvr).Namespace(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
		if err == nil && m.UID == o.UID && m.DeletionTimestamp != nil {
			held[i].Finalizers = m.Finalizers
		}
	}
}

var apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}

// unavailable names the APIServices whose servers do not answer.
func (c *connection) unavailable(ctx context.Context) []string {
	client, err := dynamic.NewForConfig(c.config)
	if err != nil {
		return nil
	}
	list, err := client.Resource(apiServices).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil
	}
	var names []string
	for _, s := range list.Items {
		conditions, _, _ := unstructured.NestedSlice(s.Object, "status", "conditions") // none is no answer either
		if slices.ContainsFunc(conditions, func(c any) bool {
			m, _ := c.(map[string]any)
			return m["type"] == "Available" && m["status"] == "False"
		}) {
			names = append(names, s.GetName())
		}
	}
	return names
}

// sameServer returns the flags that make a command of reap, and one of kubectl, talk to the server that a command line
// names, as words for a shell.
func sameServer(client *config.Client) (reap, kubectl string) {
	kubeconfig := client.Kubeconfig
	if client.DataDirGiven() {
		if dir, err := client.DataDir(); err == nil {
			reap = " --data-dir " + report.ShellWord(dir)
			kubeconfig = config.AdminKubeconfig(dir)
		}
	} else if kubeconfig != "" {
		reap = " --kubeconfig " + report.ShellWord(kubeconfig)
	}
	if kubeconfig != "" {
		kubectl = " --kubeconfig " + report.ShellWord(kubeconfig)
	}
	if client.Context != "" {
		context := " --context " + report.ShellWord(client.Context)
		reap, kubectl = reap+context, kubectl+context
	}
	return reap, kubectl
}
