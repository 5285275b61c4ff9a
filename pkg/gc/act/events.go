package act

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// component is the source of the collector's events, that of the stock collector.
const component = "garbage-collector-controller"

// Events tells users about objects, in the objects' namespaces. A failure to write one is
// ignored: the log has the same line.
type Events struct {
	broadcaster record.EventBroadcaster
	recorder    record.EventRecorder
}

// NewEvents returns Events that are written through config until ctx ends.
func NewEvents(ctx context.Context, config *rest.Config) (*Events, error) {
	client, err := typedcorev1.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	b := record.NewBroadcaster(record.WithContext(ctx))
	b.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.Events("")})
	return &Events{broadcaster: b, recorder: b.NewRecorder(scheme.Scheme, corev1.EventSource{Component: component})}, nil
}

// Warn writes a warning about an object. It does not wait.
func (e *Events) Warn(r *graph.Resource, rec *graph.Record, reason, format string, args ...any) {
	gvr := r.Preferred()
	e.recorder.Eventf(&corev1.ObjectReference{
		APIVersion:      gvr.GroupVersion().String(),
		Kind:            r.Kind,
		Namespace:       rec.Namespace,
		Name:            rec.Name,
		UID:             rec.UID,
		ResourceVersion: rec.ResourceVersion,
	}, corev1.EventTypeWarning, reason, format, args...)
}

// Stop ends the writing; what has not been written is lost.
func (e *Events) Stop() { e.broadcaster.Shutdown() }
