package observe

import (
	"context"
	"encoding/json"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// server says who answers for an API version.
type server int32

const (
	// unknown: the APIServices have not been read since the version has been served.
	unknown server = iota
	// local: the API server itself.
	local
	// aggregated: another server, with a store of its own.
	aggregated
)

// services is what the APIServices say; nil if they could not be read.
type services map[schema.GroupVersion]server

// readServices reads the APIServices.
func readServices(ctx context.Context, d discovery.DiscoveryInterface) services {
	raw, err := d.RESTClient().Get().AbsPath("/apis/apiregistration.k8s.io/v1/apiservices").Do(ctx).Raw()
	var list struct {
		Items []struct {
			Spec struct {
				Group   string          `json:"group"`
				Version string          `json:"version"`
				Service json.RawMessage `json:"service"`
			} `json:"spec"`
		} `json:"items"`
	}
	if err == nil {
		err = json.Unmarshal(raw, &list)
	}
	if err != nil {
		return nil
	}
	all := services{}
	for _, i := range list.Items {
		gv := schema.GroupVersion{Group: i.Spec.Group, Version: i.Spec.Version}
		all[gv] = local
		if len(i.Spec.Service) > 0 && string(i.Spec.Service) != "null" {
			all[gv] = aggregated
		}
	}
	return all
}

// mayAggregate is true if another server answers for any version of a group. Where that
// could not be read, every group counts as such: it costs a read before each write and is
// safe.
func (s services) mayAggregate(group string) bool {
	for gv, by := range s {
		if gv.Group == group && by == aggregated {
			return true
		}
	}
	return s == nil
}
