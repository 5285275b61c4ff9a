package integration

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/ptr"

	"github.com/reap-dev/reap/tests/size"
)

// TestListAndWatchByNameShowTheCreation lists and watches one object by name while it is created, as clients do that wait for an
// object: the creation must be in the list or in the watch.
func TestListAndWatchByNameShowTheCreation(t *testing.T) {
	const observers = 4
	n := size.Of(100, 100, 400) / slowness
	s := shared(t)
	for form, see := range map[string]func(context.Context, metadata.ResourceInterface, metav1.ListOptions) error{
		"ListAndWatch": listAndAwait, "InitialEvents": watchWithInitialEvents,
	} {
		t.Run(form, func(t *testing.T) {
			ns := s.namespace(t, "by-name")
			client := s.meta.Resource(configMaps.gvr).Namespace(ns)
			var g errgroup.Group
			g.SetLimit(4)
			for i := range n {
				g.Go(func() error {
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					defer cancel()
					name := fmt.Sprintf("created-%d", i)
					var one errgroup.Group
					one.Go(func() error {
						_, err := s.dyn.Resource(configMaps.gvr).Namespace(ns).Create(ctx, object(configMaps, name), metav1.CreateOptions{})
						return err
					})
					for range observers {
						one.Go(func() error {
							return see(ctx, client, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()})
						})
					}
					if err := one.Wait(); err != nil {
						t.Errorf("%s: %v", name, err)
					}
					return nil
				})
			}
			_ = g.Wait() // all errors have been reported
		})
	}
}

// listAndAwait returns nil once it has seen the object that o selects.
func listAndAwait(ctx context.Context, client metadata.ResourceInterface, o metav1.ListOptions) error {
	list, err := client.List(ctx, o)
	if err != nil || len(list.Items) > 0 {
		return err
	}
	o.ResourceVersion = list.ResourceVersion
	return awaitAdded(ctx, client, o)
}

func watchWithInitialEvents(ctx context.Context, client metadata.ResourceInterface, o metav1.ListOptions) error {
	o.SendInitialEvents, o.ResourceVersionMatch, o.AllowWatchBookmarks = ptr.To(true), metav1.ResourceVersionMatchNotOlderThan, true
	return awaitAdded(ctx, client, o)
}

func awaitAdded(ctx context.Context, client metadata.ResourceInterface, o metav1.ListOptions) error {
	w, err := client.Watch(ctx, o)
	if err != nil {
		return err
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		if e.Type == watch.Added {
			return nil
		}
	}
	return errors.New("the watch never showed the creation")
}
