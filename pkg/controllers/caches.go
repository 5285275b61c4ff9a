package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	apicorev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/admissionregistration"
	admissionv1 "k8s.io/client-go/informers/admissionregistration/v1"
	"k8s.io/client-go/informers/apps"
	appsv1 "k8s.io/client-go/informers/apps/v1"
	"k8s.io/client-go/informers/batch"
	batchv1 "k8s.io/client-go/informers/batch/v1"
	"k8s.io/client-go/informers/certificates"
	certificatesv1 "k8s.io/client-go/informers/certificates/v1"
	"k8s.io/client-go/informers/core"
	corev1 "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/informers/discovery"
	discoveryv1 "k8s.io/client-go/informers/discovery/v1"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/informers/policy"
	policyv1 "k8s.io/client-go/informers/policy/v1"
	"k8s.io/client-go/informers/rbac"
	rbacv1 "k8s.io/client-go/informers/rbac/v1"
	"k8s.io/client-go/informers/resource"
	resourcev1 "k8s.io/client-go/informers/resource/v1"
	"k8s.io/client-go/informers/storage"
	storagev1 "k8s.io/client-go/informers/storage/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/controller/certificates/rootcacertpublisher"
)

// caches are the informers that the controllers share: a resource is listed and
// watched once, and only if a controller that runs needs it. caches remembers which
// controller needs which informer, so that an error about a list can name the controller.
//
// Informers must be requested one after the other, before start. Afterwards only informers can be requested again that are
// there.
type caches struct {
	factory informers.SharedInformerFactory
	// asking is the controller that is being made. After the start it is empty.
	asking string
	used   []*used
}

// used is an informer and the controllers that use it.
type used struct {
	informer cache.SharedIndexInformer
	object   string
	by       []string
	unserved chan struct{} // closed when the API server does not know the resource
	once     sync.Once     // closes unserved

	// mu protects failure, which the informer reports.
	mu      sync.Mutex
	failure error // the latest one
}

func newCaches(client kubernetes.Interface) *caches {
	return &caches{factory: informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(withoutManagedFields))}
}

// withoutManagedFields drops managedFields, which are often half of an object. No
// controller here reads them, and an update without managedFields does not change them.
func withoutManagedFields(obj any) (any, error) {
	if m, err := meta.Accessor(obj); err == nil {
		m.SetManagedFields(nil)
	}
	return obj, nil
}

func (c *caches) core() corev1.Interface   { return core.New(c, metav1.NamespaceAll, nil).V1() }
func (c *caches) apps() appsv1.Interface   { return apps.New(c, metav1.NamespaceAll, nil).V1() }
func (c *caches) batch() batchv1.Interface { return batch.New(c, metav1.NamespaceAll, nil).V1() }
func (c *caches) rbac() rbacv1.Interface   { return rbac.New(c, metav1.NamespaceAll, nil).V1() }
func (c *caches) discovery() discoveryv1.Interface {
	return discovery.New(c, metav1.NamespaceAll, nil).V1()
}
func (c *caches) policy() policyv1.Interface { return policy.New(c, metav1.NamespaceAll, nil).V1() }
func (c *caches) resource() resourcev1.Interface {
	return resource.New(c, metav1.NamespaceAll, nil).V1()
}
func (c *caches) storage() storagev1.Interface { return storage.New(c, metav1.NamespaceAll, nil).V1() }
func (c *caches) certificates() certificatesv1.Interface {
	return certificates.New(c, metav1.NamespaceAll, nil).V1()
}
func (c *caches) admission() admissionv1.Interface {
	return admissionregistration.New(c, metav1.NamespaceAll, nil).V1()
}

// rootCAs returns an informer of only the ConfigMaps that the root CA publisher writes,
// because keeping all ConfigMaps in memory would cost too much. Therefore no other
// controller here can use ConfigMaps.
func (c *caches) rootCAs() corev1.ConfigMapInformer {
	return core.New(c, metav1.NamespaceAll, func(l *metav1.ListOptions) {
		l.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, rootcacertpublisher.RootCACertConfigMapName).String()
	}).V1().ConfigMaps()
}

// secrets returns an informer of only the Secrets of one type, for the same reason as rootCAs.
func (c *caches) secrets(of apicorev1.SecretType) corev1.SecretInformer {
	return core.New(c, metav1.NamespaceAll, func(l *metav1.ListOptions) {
		l.FieldSelector = fields.OneTermEqualSelector("type", string(of)).String()
	}).V1().Secrets()
}

var _ internalinterfaces.SharedInformerFactory = (*caches)(nil)

// Start and InformerName call the factory; client-go's groups of informers need them.
func (c *caches) Start(stop <-chan struct{})        { c.factory.Start(stop) }
func (c *caches) InformerName() *cache.InformerName { return c.factory.InformerName() }

// InformerFor returns the informer of a type. client-go's groups of informers call it.
func (c *caches) InformerFor(obj runtime.Object, create internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	informer := c.factory.InformerFor(obj, create)
	at := slices.IndexFunc(c.used, func(u *used) bool { return u.informer == informer })
	if at < 0 {
		u := &used{informer: informer, object: fmt.Sprintf("%T", obj), unserved: make(chan struct{})}
		_ = informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
			cache.DefaultWatchErrorHandler(ctx, r, err)
			u.failed(err)
		}) // refused only by an informer that runs
		at = len(c.used)
		c.used = append(c.used, u)
	}
	if u := c.used[at]; c.asking != "" && !slices.Contains(u.by, c.asking) {
		u.by = append(u.by, c.asking)
	}
	return informer
}

func (u *used) failed(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.failure = err
	if apierrors.IsNotFound(err) {
		u.once.Do(func() { close(u.unserved) })
	}
}

// start starts the informers and returns when each has its first list, or ctx is
// cancelled. If an informer has no list in time, or its API is off, the error names the
// controllers that need it.
func (c *caches) start(ctx context.Context, within time.Duration) error {
	c.factory.StartWithContext(ctx)
	late := time.After(within)
	var errs []error
	for _, u := range c.used {
		select {
		case <-u.informer.HasSyncedChecker().Done():
		case <-u.unserved:
			errs = append(errs, u.err("the API server does not serve it"))
		case <-late:
			return errors.Join(append(errs, u.err(fmt.Sprintf("no list within %s", within)))...)
		case <-ctx.Done():
			return nil
		}
	}
	return errors.Join(errs...)
}

func (u *used) err(what string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	err := errors.New(what)
	if u.failure != nil {
		err = fmt.Errorf("%s: %w", what, u.failure)
	}
	return fmt.Errorf("starting %s, which needs %s (--disable=%s goes without): %w",
		strings.Join(u.by, ", "), u.object, strings.Join(u.by, ","), err)
}
