package controllers

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
)

// retry is how long a controller that could not be created waits before it is tried again: a second, then twice as long
// each time, a minute at most. The cause is in a file, and stays until it is changed.
var retry = wait.Backoff{Duration: time.Second, Factor: 2, Cap: time.Minute, Steps: 10}

// onFirst delays the creation of a controller until the informer has an object: before that, the server pays for one
// watch and nothing else. The controller then stays until the context is cancelled.
func onFirst(p parts, informer cache.SharedIndexInformer, create func(context.Context) (run, error)) (run, error) {
	registerFailing()
	p.failures.clear(p.name) // its series is there before the first object
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
		defer p.failures.clear(p.name)
		var created run
		if retry.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
			var err error
			if created, err = create(ctx); err != nil {
				p.failures.add(p.name, err)
				p.log.WithError(err).Warn("a controller cannot start; will retry")
			}
			return err == nil, nil
		}) == nil {
			p.failures.clear(p.name)
			created(ctx)
		}
	}, nil
}
