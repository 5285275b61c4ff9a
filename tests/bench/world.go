package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/wait"
)

// clients is the number of workers of a client that works on many objects.
const clients = 16

// kind is a kind of object that cascades are made of.
type kind struct {
	gvr  schema.GroupVersionResource
	name string
}

var (
	configMaps = kind{schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "ConfigMap"}
	widgets    = kind{schema.GroupVersionResource{Group: "bench.reap.dev", Version: "v1", Resource: "widgets"}, "Widget"}

	namespaceResource  = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	definitionResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// item is an object to be made. Its name begins with its role: root, inner or leaf.
type item struct {
	name  string
	owner int // its place in the list, where it comes before its dependents; -1 for none
}

// role returns the role of an object in its cascade, from its name.
func role(name string) string {
	r, _, _ := strings.Cut(name, "-")
	return r
}

// flat is n leaves of one root.
func flat(n int) []item {
	items := []item{{"root", -1}}
	for i := range n {
		items = append(items, item{fmt.Sprintf("leaf-%06d", i), 0})
	}
	return items
}

// threeLevels is a root with inner objects, nine leaves to each, n in all below the root.
func threeLevels(n int) []item {
	items := []item{{"root", -1}}
	for i := range n / 10 {
		inner := len(items)
		items = append(items, item{fmt.Sprintf("inner-%06d", i), 0})
		for j := range 9 {
			items = append(items, item{fmt.Sprintf("leaf-%06d-%d", i, j), inner})
		}
	}
	return items
}

// chains is a root with chains of ten, n objects in all below the root.
func chains(n int) []item {
	items := []item{{"root", -1}}
	for i := range n / 10 {
		above := 0
		for j := range 10 {
			name := fmt.Sprintf("inner-%06d-%d", i, j)
			if j == 9 {
				name = fmt.Sprintf("leaf-%06d", i)
			}
			items = append(items, item{name, above})
			above = len(items) - 1
		}
	}
	return items
}

// namespace makes a namespace of its own for one step.
func (b *bench) namespace(ctx context.Context, s *server) (string, error) {
	b.spaces++
	name := fmt.Sprintf("bench-%d", b.spaces)
	ns := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}}
	_, err := s.objects.Resource(namespaceResource).Create(ctx, ns, metav1.CreateOptions{})
	return name, err
}

// define makes the custom resource and waits until it is served.
func (s *server) define(ctx context.Context) error {
	crd := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": widgets.gvr.GroupResource().String()},
		"spec": map[string]any{
			"group": widgets.gvr.Group, "scope": "Namespaced",
			"names": map[string]any{"plural": widgets.gvr.Resource, "kind": widgets.name},
			"versions": []any{map[string]any{
				"name": widgets.gvr.Version, "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}}
	if _, err := s.objects.Resource(definitionResource).Create(ctx, crd, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		_, err := s.objects.Resource(widgets.gvr).List(ctx, metav1.ListOptions{Limit: 1})
		return err == nil, nil
	})
}

// dress makes an object larger than its name.
type dress func(*unstructured.Unstructured)

// small is an object of few bytes.
func small(o *unstructured.Unstructured) { o.Object["data"] = map[string]any{"key": "value"} }

// create makes a world's objects, each after its owner.
func (s *server) create(ctx context.Context, k kind, ns string, items []item, with dress) error {
	client := s.objects.Resource(k.gvr).Namespace(ns)
	uids := make([]types.UID, len(items))
	depth := make([]int, len(items))
	deepest := 0
	for i, it := range items {
		if it.owner >= 0 {
			depth[i] = depth[it.owner] + 1
			deepest = max(deepest, depth[i])
		}
	}
	for level := range deepest + 1 {
		pool, ctx := errgroup.WithContext(ctx)
		pool.SetLimit(clients)
		for i, it := range items {
			if depth[i] != level {
				continue
			}
			o := k.object(it.name)
			with(o)
			if it.owner >= 0 {
				yes := true
				o.SetOwnerReferences([]metav1.OwnerReference{{
					APIVersion: k.gvr.GroupVersion().String(), Kind: k.name, Name: items[it.owner].name, UID: uids[it.owner], BlockOwnerDeletion: &yes,
				}})
			}
			pool.Go(func() error {
				made, err := client.Create(ctx, o, metav1.CreateOptions{})
				if err == nil {
					uids[i] = made.GetUID()
				}
				return err
			})
		}
		if err := pool.Wait(); err != nil {
			return fmt.Errorf("creating %d objects: %w", len(items), err)
		}
	}
	return nil
}

func (k kind) object(name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetAPIVersion(k.gvr.GroupVersion().String())
	o.SetKind(k.name)
	o.SetName(name)
	return o
}

// createGarbage creates an object whose owner does not exist: a working collector deletes it.
func (s *server) createGarbage(ctx context.Context, k kind, ns, name string) error {
	o := k.object(name)
	o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: k.gvr.GroupVersion().String(), Kind: k.name, Name: "nobody", UID: uuid.NewUUID()}})
	_, err := s.objects.Resource(k.gvr).Namespace(ns).Create(ctx, o, metav1.CreateOptions{})
	return err
}

// awaitEnd waits until an object is gone.
func (s *server) awaitEnd(ctx context.Context, k kind, ns, name string) error {
	err := wait.PollUntilContextTimeout(ctx, 5*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		_, err := s.meta.Resource(k.gvr).Namespace(ns).Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the end of %s/%s: %w", k.gvr.Resource, name, err)
	}
	return nil
}

// barrier returns once the collector has seen all objects of a kind and has finished its work on them.
func (s *server) barrier(ctx context.Context, k kind, ns string) error {
	name := "doomed-" + string(uuid.NewUUID())
	if err := s.createGarbage(ctx, k, ns, name); err != nil {
		return err
	}
	return s.awaitEnd(ctx, k, ns, name)
}
