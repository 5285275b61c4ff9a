package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/reap-dev/reap/reaptest"
)

var scheme = newScheme()

// servers have the operator's custom resources, and are reset between the tests.
var servers = reaptest.Pool{
	Options: []reaptest.Option{reaptest.WithScheme(scheme)},
	Prepare: func(_ context.Context, s *reaptest.Server) error {
		_, err := envtest.InstallCRDs(s.Config(), envtest.CRDInstallOptions{Paths: []string{"config/crd.yaml"}, ErrorIfPathMissing: true})
		return err
	},
}

func TestMain(m *testing.M) {
	log.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	code := m.Run()
	if err := servers.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// world is a server with the operator running beside it, in the test's process.
type world struct {
	*reaptest.Server
	client.Client
	offline atomic.Bool // whether pages cannot be unpublished
}

func start(t *testing.T) *world {
	t.Helper()
	w := &world{Server: servers.Start(t)}
	// The webhook's configuration leads to a port of this process. It goes when the server is reset.
	hook := envtest.WebhookInstallOptions{Paths: []string{"config/webhook.yaml"}}
	if err := hook.Install(w.Config()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := hook.Cleanup(); err != nil {
			t.Error(err)
		}
	})
	m, err := ctrl.NewManager(w.Config(), ctrl.Options{
		Scheme:        scheme,
		Metrics:       server.Options{BindAddress: "0"},
		Controller:    config.Controller{SkipNameValidation: new(true)}, // one manager for each test
		WebhookServer: webhook.NewServer(webhook.Options{Host: hook.LocalServingHost, Port: hook.LocalServingPort, CertDir: hook.LocalServingCertDir}),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := setUp(m, w.unpublish); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error)
	go func() { ended <- m.Start(ctx) }()
	t.Cleanup(func() { // before the server is reset: a running operator would make its objects anew
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	if w.Client, err = client.New(w.Config(), client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	await(t, "the webhook", func() error { return m.GetWebhookServer().StartedChecker()(nil) })
	return w
}

func (w *world) unpublish(context.Context, string) error {
	if w.offline.Load() {
		return errors.New("the web is down")
	}
	return nil
}

// await waits until f returns nil.
func await(t *testing.T, what string, f func() error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		last = f()
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("waiting for %s: %v", what, last)
	}
}

// site creates a site of two pages, with the owners given, and waits until the operator has made all that belongs to it.
func (w *world) site(t *testing.T, name string, owners ...metav1.OwnerReference) (site *Site, owned []client.Object) {
	t.Helper()
	site = &Site{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, OwnerReferences: owners},
		Spec:       SiteSpec{Pages: map[string]string{"home": "Welcome", "about": "Us"}},
	}
	if err := w.Create(t.Context(), site); err != nil {
		t.Fatal(err)
	}
	in := metav1.ObjectMeta{Namespace: "default"}
	for page := range site.Spec.Pages {
		in.Name = name + "-" + page
		owned = append(owned, &Page{ObjectMeta: in}, &corev1.ConfigMap{ObjectMeta: in})
	}
	in.Name = name
	owned = append(owned, &appsv1.Deployment{ObjectMeta: in})
	for _, o := range owned {
		await(t, fmt.Sprintf("%T %s", o, o.GetName()), func() error { return w.Get(t.Context(), client.ObjectKeyFromObject(o), o) })
	}
	// Kubernetes' own controllers work too.
	var sets appsv1.ReplicaSetList
	await(t, "a ReplicaSet", func() error {
		if err := w.List(t.Context(), &sets, client.MatchingLabels{"site": name}); err != nil || len(sets.Items) > 0 {
			return err
		}
		return errors.New("there is none")
	})
	return site, append(owned, &sets.Items[0])
}

func TestEverythingGoesWithItsSite(t *testing.T) {
	t.Parallel()
	w := start(t)
	site, owned := w.site(t, "shop")
	if err := w.Delete(t.Context(), site); err != nil {
		t.Fatal(err)
	}
	for _, o := range owned {
		w.Gone(t, o)
	}
}

func TestTextGoesWithItsPage(t *testing.T) {
	t.Parallel()
	w := start(t)
	site, _ := w.site(t, "shop")
	site.Spec.Pages = map[string]string{"home": "Welcome"}
	if err := w.Update(t.Context(), site); err != nil {
		t.Fatal(err)
	}
	in := metav1.ObjectMeta{Namespace: "default", Name: "shop-about"}
	w.Gone(t, &Page{ObjectMeta: in}, &corev1.ConfigMap{ObjectMeta: in})
	if err := w.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "shop-home"}, &corev1.ConfigMap{}); err != nil {
		t.Error(err)
	}
}

// In the foreground a site stays until all its pages have been unpublished.
func TestSiteWaitsForItsPages(t *testing.T) {
	t.Parallel()
	w := start(t)
	site, owned := w.site(t, "shop")
	w.offline.Store(true)
	if err := w.Delete(t.Context(), site, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		t.Fatal(err)
	}
	page := &Page{}
	await(t, "the page to be deleted", func() error {
		err := w.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "shop-home"}, page)
		if err == nil && page.DeletionTimestamp == nil {
			err = errors.New("nobody has deleted it")
		}
		return err
	})
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(site), site); err != nil {
		t.Fatal(err)
	}
	if !controllerutil.ContainsFinalizer(site, metav1.FinalizerDeleteDependents) {
		t.Errorf("the site does not wait: its finalizers are %v", site.Finalizers)
	}
	w.offline.Store(false)
	w.Gone(t, site)
	for _, o := range owned {
		w.Gone(t, o)
	}
}

func TestPagesSurviveAnOrphaningDeletion(t *testing.T) {
	t.Parallel()
	w := start(t)
	site, owned := w.site(t, "shop")
	if err := w.Delete(t.Context(), site, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
		t.Fatal(err)
	}
	w.Gone(t, site)
	for _, o := range owned {
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			t.Error(err)
		}
		if page, ok := o.(*Page); ok && len(page.OwnerReferences) > 0 {
			t.Errorf("page %s still names its site: %v", page.Name, page.OwnerReferences)
		}
	}
}

func TestWebhook(t *testing.T) {
	t.Parallel()
	w := start(t)
	empty := &Site{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "empty"}}
	if err := w.Create(t.Context(), empty); err == nil || !strings.Contains(err.Error(), "a site needs a page") {
		t.Errorf("a site without pages: %v", err)
	}
	site, _ := w.site(t, "shop")
	site.Annotations = map[string]string{protected: "true"}
	if err := w.Update(t.Context(), site); err != nil {
		t.Fatal(err)
	}
	if err := w.Delete(t.Context(), site); err == nil || !strings.Contains(err.Error(), "site shop is protected") {
		t.Errorf("deleting a protected site: %v", err)
	}
}
