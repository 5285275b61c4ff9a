package gc

import (
	"context"

	"k8s.io/client-go/rest"

	"github.com/reap-dev/reap/pkg/bound"
	"github.com/reap-dev/reap/pkg/gc/act"
)

// newActor returns an actor that writes only while allow returns nil. It is asked before
// each call, and once more just before a request is sent: when the server is busy,
// client-go waits within a call and sends its request again.
func newActor(config *rest.Config, allow func() error) (*act.Actor, error) {
	config = bound.Writes(config, func(ctx context.Context) (context.Context, context.CancelFunc, error) {
		return ctx, func() {}, allow()
	})
	clients, err := act.ClientsFor(config)
	if err != nil {
		return nil, err
	}
	return act.New(clients, allow, countCall), nil
}
