package cli

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// served is what a server serves, asked once. It is the resource.RESTClientGetter that
// kubectl's way of naming objects needs.
type served struct {
	config *rest.Config
	cached discovery.CachedDiscoveryInterface
	mapper meta.RESTMapper
}

func newServed(config *rest.Config) (*served, error) {
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	cached := memory.NewMemCacheClient(d)
	return &served{config: config, cached: cached, mapper: restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(cached), cached, nil)}, nil
}

// ToRESTConfig implements resource.RESTClientGetter: a config of the caller's own.
func (s *served) ToRESTConfig() (*rest.Config, error) { return rest.CopyConfig(s.config), nil }

// ToDiscoveryClient implements resource.RESTClientGetter.
func (s *served) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	return s.cached, nil
}

// ToRESTMapper implements resource.RESTClientGetter.
func (s *served) ToRESTMapper() (meta.RESTMapper, error) { return s.mapper, nil }
