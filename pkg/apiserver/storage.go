package apiserver

import (
	"context"
	"fmt"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apifeatures "k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/registry/generic"
	serveroptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/feature"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

// stores makes the store of every resource, where kube-apiserver would dial the datastore once for each.
//
// kube-apiserver makes its clients in a private function, but lets each resource's options name the function that makes its
// store. What it makes without those options goes on dialing, seldom: health checks, the size for the metrics, and the
// allocators of ports.
type stores struct {
	*serveroptions.StorageFactoryRestOptionsFactory
	connect func(storagebackend.Config) (backend, error)
	damage  *damage
}

// backend is the datastore as one store uses it.
type backend struct {
	client    *clientv3.Client
	compactor etcd3.Compactor // nil if the datastore compacts itself
	close     func()
}

// inProcess returns a backend whose client calls a datastore in this process, which compacts itself.
func inProcess(client func() *clientv3.Client) func(storagebackend.Config) (backend, error) {
	return func(storagebackend.Config) (backend, error) {
		c := client()
		return backend{client: c, close: func() { _ = c.Close() }}, nil // it has no connection
	}
}

// useStores sets the options of all resources: the API server's own, the aggregator's and custom ones.
func useStores(config *app.Config, connect func(storagebackend.Config) (backend, error), found *damage) error {
	for _, getter := range []*generic.RESTOptionsGetter{
		&config.KubeAPIs.ControlPlane.Generic.RESTOptionsGetter,
		&config.Aggregator.GenericConfig.RESTOptionsGetter,
		&config.ApiExtensions.GenericConfig.RESTOptionsGetter,
		&config.ApiExtensions.ExtraConfig.CRDRESTOptionsGetter,
	} {
		dialing, ok := (*getter).(*serveroptions.StorageFactoryRestOptionsFactory)
		if !ok {
			return fmt.Errorf("unknown storage options %T", *getter)
		}
		*getter = stores{dialing, connect, found}
	}
	return nil
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (s stores) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	o, err := s.StorageFactoryRestOptionsFactory.GetRESTOptions(resource, example)
	if err != nil {
		return o, err
	}
	cached, err := s.cached(resource)
	if err != nil {
		return o, err
	}
	o.Decorator = s.decorator(cached)
	return o, nil
}

// cached reports whether a resource has a watch cache. It has none unless the user asks for it.
func (s stores) cached(resource schema.GroupResource) (bool, error) {
	if !s.Options.EnableWatchCache {
		return false, nil
	}
	sizes, err := serveroptions.ParseWatchCacheSizes(s.Options.WatchCacheSizes)
	if err != nil {
		return false, err
	}
	size, named := sizes[resource]
	return !named || size > 0, nil
}

// decorator does what generic.UndecoratedStorage does, without its second readings, or registry.StorageWithCacher.
func (s stores) decorator(cached bool) generic.StorageDecorator {
	return func(
		config *storagebackend.ConfigForResource,
		prefix string,
		keyOf func(runtime.Object) (string, error),
		newObject, newList func() runtime.Object,
		attributes storage.AttrFunc,
		triggers storage.IndexerFuncs,
		indexers *cache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		store, destroy, err := s.newStore(config, newObject, newList, prefix)
		if err != nil {
			return nil, nil, err
		}
		if !cached {
			return rereading{store}, destroy, nil
		}
		watchCache, err := cacher.NewCacherFromConfig(cacher.Config{
			Storage:             store,
			Versioner:           storage.APIObjectVersioner{},
			GroupResource:       config.GroupResource,
			EventsHistoryWindow: config.EventsHistoryWindow,
			ResourcePrefix:      prefix,
			KeyFunc:             keyOf,
			NewFunc:             newObject,
			NewListFunc:         newList,
			GetAttrsFunc:        attributes,
			IndexerFuncs:        triggers,
			Indexers:            indexers,
			Codec:               config.Codec,
		})
		if err != nil {
			destroy()
			return nil, nil, err
		}
		delegator := cacher.NewCacheDelegator(watchCache, store)
		return delegator, sync.OnceFunc(func() {
			delegator.Stop()
			watchCache.Stop()
			destroy()
		}), nil
	}
}

// newStore does what kube-apiserver's newETCD3Storage does with a client of its own.
func (s stores) newStore(config *storagebackend.ConfigForResource, newObject, newList func() runtime.Object, prefix string) (storage.Interface, factory.DestroyFunc, error) {
	b, err := s.connect(config.Config)
	if err != nil {
		return nil, nil, err
	}
	client := &kubernetes.Client{Client: b.client}
	client.Kubernetes = client
	client.KV = etcd3.NewETCDLatencyTracker(client.KV)
	transformer := config.Transformer
	if transformer == nil {
		transformer = identity.NewEncryptCheckTransformer()
	}
	versioner := storage.APIObjectVersioner{}
	var decoder etcd3.Decoder = checkingDecoder{etcd3.NewDefaultDecoder(config.Codec, versioner)}
	unsafeDeletion := utilfeature.DefaultFeatureGate.Enabled(apifeatures.AllowUnsafeMalformedObjectDeletion)
	if unsafeDeletion {
		transformer = etcd3.WithCorruptObjErrorHandlingTransformer(transformer)
		decoder = etcd3.WithCorruptObjErrorHandlingDecoder(decoder)
	}
	store, err := etcd3.New(client, b.compactor, config.Codec, newObject, newList, config.Prefix, prefix, config.GroupResource,
		transformer, config.LeaseManagerConfig, decoder, versioner)
	if err != nil {
		b.close()
		return nil, nil, err
	}
	// Subresources share a store, and each destroys it.
	destroy := sync.OnceFunc(func() {
		store.Close()
		b.close()
	})
	var whole storage.Interface = store
	if unsafeDeletion {
		whole = etcd3.NewStoreWithUnsafeCorruptObjectDeletion(store, config.GroupResource)
	}
	whole = lessening{whole, config.Codec, config.GroupResource}
	return explainingDamage{whole, config.Prefix, config.GroupResource, s.damage}, destroy, nil
}

// checkProgress lets kube-apiserver learn whether the datastore tells watches their progress, on which watch caches
// depend. It asks each endpoint once, and a client in this process has none.
func checkProgress(ctx context.Context, client *clientv3.Client) {
	feature.DefaultFeatureSupportChecker.CheckClient(ctx, oneEndpoint{client}, storage.RequestWatchProgress)
}

type oneEndpoint struct{ *clientv3.Client }

func (oneEndpoint) Endpoints() []string { return []string{"in-process"} }
