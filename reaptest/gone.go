package reaptest

import (
	"context"
	"fmt"
	"os/exec"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/restmapper"
)

const (
	// goneWithin is how long [Server.Gone] waits: far longer than any cascade of a test takes.
	goneWithin = time.Minute
	// askWithin bounds one run of a command.
	askWithin = 30 * time.Second
)

// Gone waits until none of the objects exists any more, and fails the test at once if one is still there after a
// minute, with what `reap why` says about it. An object is known by its UID, if it has one: another object of the same
// name is not taken for it.
//
// Objects are those of client-go, unstructured ones, or others that name their own apiVersion and kind.
func (s *Server) Gone(t testing.TB, objects ...runtime.Object) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), goneWithin, fmt.Errorf("it is still there after %s", goneWithin))
	defer cancel()
	for _, o := range objects {
		w, err := s.find(o)
		if err != nil {
			t.Fatalf("reaptest: waiting for an object to go: %v", err)
		}
		if err := w.await(ctx); err != nil {
			t.Fatalf("reaptest: waiting for %s to go: %v%s", w, err, s.why(w))
		}
	}
}

// waited is an object that is waited for.
type waited struct {
	resource schema.GroupResource
	object   metav1.Object
	client   metadata.ResourceInterface
}

func (w *waited) String() string { return w.resource.String() + "/" + w.object.GetName() }

// find finds out where the server has an object.
func (s *Server) find(o runtime.Object) (*waited, error) {
	object, err := meta.Accessor(o)
	if err != nil {
		return nil, err
	}
	kind := o.GetObjectKind().GroupVersionKind()
	if kind.Empty() { // as typed clients leave it
		kinds, _, err := scheme.Scheme.ObjectKinds(o)
		if err != nil {
			return nil, fmt.Errorf("set the apiVersion and kind of a %T: %w", o, err)
		}
		kind = kinds[0]
	}
	d, err := discovery.NewDiscoveryClientForConfig(s.config)
	if err != nil {
		return nil, err
	}
	// Asked anew each time: a test may have made the kind a moment ago.
	groups, err := restmapper.GetAPIGroupResources(d)
	if err != nil {
		return nil, fmt.Errorf("asking which resources there are: %w", err)
	}
	mapping, err := restmapper.NewDiscoveryRESTMapper(groups).RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, err
	}
	client, err := metadata.NewForConfig(s.config)
	if err != nil {
		return nil, err
	}
	return &waited{mapping.Resource.GroupResource(), object, client.Resource(mapping.Resource).Namespace(object.GetNamespace())}, nil
}

// await returns when the object has gone, or with the cause for which ctx has ended.
func (w *waited) await(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
		live, err := w.client.Get(ctx, w.object.GetName(), metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return true, nil
		case err != nil:
			return false, err
		}
		return w.object.GetUID() != "" && live.UID != w.object.GetUID(), nil
	})
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// why returns what `reap why` says about an object, as the end of an error's text.
func (s *Server) why(w *waited) string {
	// The test's own context may have ended.
	ctx, cancel := context.WithTimeout(context.Background(), askWithin)
	defer cancel()
	args := []string{"why", "--kubeconfig", s.Kubeconfig, w.String()}
	if ns := w.object.GetNamespace(); ns != "" {
		args = append(args, "--namespace", ns)
	}
	out, err := exec.CommandContext(ctx, s.process.cmd.Path, args...).CombinedOutput()
	if err != nil {
		return fmt.Sprintf("\nreap why failed: %v\n%s", err, out)
	}
	return "\n" + string(out)
}
