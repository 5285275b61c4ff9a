package reaptest_test

import (
	"context"
	"fmt"
	"log"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/yaml"

	"github.com/reap-dev/reap/reaptest"
)

const booksDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: books.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: books, singular: book, kind: Book, listKind: BookList}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
`

var (
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	books       = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "books"}
)

// pressOn is the controller under test: it makes two pages, which are ConfigMaps, for each Book. A page
// that is being deleted keeps a finalizer until the controller has been told to let it go.
func pressOn(ctx context.Context, objects dynamic.Interface, client kubernetes.Interface) {
	informers := dynamicinformer.NewDynamicSharedInformerFactory(objects, 0)
	_, err := informers.ForResource(books).Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(o any) {
		book := o.(*unstructured.Unstructured)
		owner := metav1.NewControllerRef(book, book.GroupVersionKind()) // with blockOwnerDeletion
		for i := range 2 {
			page := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
				Name:            fmt.Sprintf("%s-page-%d", book.GetName(), i+1),
				OwnerReferences: []metav1.OwnerReference{*owner},
				Finalizers:      []string{"example.com/archive"},
			}}
			_, err := client.CoreV1().ConfigMaps(book.GetNamespace()).Create(ctx, page, metav1.CreateOptions{})
			check(err)
		}
	}})
	check(err)
	informers.Start(ctx.Done())
}

// letGo takes the finalizers off all pages.
func letGo(ctx context.Context, client kubernetes.Interface) {
	for _, page := range pages(ctx, client) {
		_, err := client.CoreV1().ConfigMaps("default").Patch(ctx, page.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		check(err)
	}
}

// A controller test that needs the garbage collector: what a custom resource's controller has made goes
// with the resource, in the background or, if asked for, before it.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	server, err := reaptest.Run(ctx) // in a test: server := reaptest.Start(t)
	check(err)
	defer func() { check(server.Stop()) }()
	client := kubernetes.NewForConfigOrDie(server.Config())
	objects := dynamic.NewForConfigOrDie(server.Config())
	library := objects.Resource(books).Namespace("default")

	create(ctx, objects.Resource(definitions), booksDefinition)
	await(ctx, func() bool { _, err := library.List(ctx, metav1.ListOptions{}); return err == nil })
	controlling, stopControlling := context.WithCancel(ctx)
	defer stopControlling()
	pressOn(controlling, objects, client)

	create(ctx, library, `{apiVersion: example.com/v1, kind: Book, metadata: {name: novel}}`)
	await(ctx, func() bool { return len(pages(ctx, client)) == 2 })
	fmt.Println("the novel has 2 pages")

	check(library.Delete(ctx, "novel", metav1.DeleteOptions{}))
	await(ctx, func() bool { return dying(pages(ctx, client)) })
	_, err = library.Get(ctx, "novel", metav1.GetOptions{})
	fmt.Println("background: the novel is gone:", apierrors.IsNotFound(err))
	letGo(ctx, client)
	await(ctx, func() bool { return len(pages(ctx, client)) == 0 })
	fmt.Println("background: then so are its pages")

	create(ctx, library, `{apiVersion: example.com/v1, kind: Book, metadata: {name: atlas}}`)
	await(ctx, func() bool { return len(pages(ctx, client)) == 2 })
	foreground := metav1.DeletePropagationForeground
	check(library.Delete(ctx, "atlas", metav1.DeleteOptions{PropagationPolicy: &foreground}))
	await(ctx, func() bool { return dying(pages(ctx, client)) })
	atlas, err := library.Get(ctx, "atlas", metav1.GetOptions{})
	check(err)
	fmt.Println("foreground: the atlas waits for its pages:", atlas.GetFinalizers())
	letGo(ctx, client)
	await(ctx, func() bool {
		_, err := library.Get(ctx, "atlas", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	fmt.Println("foreground: it went after them; left:", len(pages(ctx, client)))

	// Output:
	// the novel has 2 pages
	// background: the novel is gone: true
	// background: then so are its pages
	// foreground: the atlas waits for its pages: [foregroundDeletion]
	// foreground: it went after them; left: 0
}

func pages(ctx context.Context, client kubernetes.Interface) []corev1.ConfigMap {
	all, err := client.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
	check(err)
	return slices.DeleteFunc(all.Items, func(c corev1.ConfigMap) bool { return len(c.OwnerReferences) == 0 }) // there are others
}

func dying(pages []corev1.ConfigMap) bool {
	return !slices.ContainsFunc(pages, func(p corev1.ConfigMap) bool { return p.DeletionTimestamp == nil })
}

func create(ctx context.Context, in dynamic.ResourceInterface, text string) {
	object := &unstructured.Unstructured{}
	check(yaml.Unmarshal([]byte(text), object))
	_, err := in.Create(ctx, object, metav1.CreateOptions{})
	check(err)
}

func await(ctx context.Context, done func() bool) {
	check(wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(context.Context) (bool, error) { return done(), nil }))
}

func check(err error) {
	if err != nil {
		log.Panic(err)
	}
}
