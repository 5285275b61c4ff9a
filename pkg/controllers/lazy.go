package controllers

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
)

// retryEvery is how long a controller that could not be created waits before it is tried again.
const retryEvery = time.Second

// onFirst delays the creation of a controller until the informer has an object: before that, the server pays for one
// watch and nothing else. The controller then stays until the context is cancelled.
func onFirst(p parts, informer cache.SharedIndexInformer, create func(context.Context) (run, error)) (run, error) {
	first := make(chan struct{})
	var once sync.Once
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { once.Do(func() { close(first) }) },
	}); err != nil {
		return nil, err
	}
	return func(ctx context.Context) {
		select {
		case <-first:
		case <-ctx.Done():
			return
		}
		var created run
		if wait.PollUntilContextCancel(ctx, retryEvery, true, func(ctx context.Context) (bool, error) {
			var err error
			if created, err = create(ctx); err != nil {
				p.log.WithError(err).Warn("a controller cannot start; will retry")
			}
			return err == nil, nil
		}) == nil {
			created(ctx)
		}
	}, nil
}
