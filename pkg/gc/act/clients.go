package act

import (
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// Clients are what an Actor calls through.
type Clients struct {
	// Metadata makes every call that the others do not.
	Metadata metadata.Interface
	// Objects reads fields that metadata does not hold. Only ReadStatus needs it.
	Objects dynamic.Interface
	// Deletes sends the options of deletions as protobuf. Without it they are JSON.
	Deletes rest.Interface
}

// ClientsFor returns the clients of a configuration. An error says that the configuration is wrong.
func ClientsFor(config *rest.Config) (c Clients, err error) {
	of := metadata.ConfigFor(config)
	if c.Metadata, err = metadata.NewForConfig(of); err != nil {
		return Clients{}, err
	}
	if c.Objects, err = dynamic.NewForConfig(config); err != nil {
		return Clients{}, err
	}
	if c.Deletes, err = rest.UnversionedRESTClientFor(of); err != nil {
		return Clients{}, err
	}
	return c, nil
}
