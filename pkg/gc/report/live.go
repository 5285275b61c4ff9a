package report

import "time"

// Live is what a graph does not hold of an object. The command that asks for a report reads
// it with the caller's rights, for the objects that it shows; the zero value is for nothing read.
type Live struct {
	// Created is when the object was created, Ready how ready it is, if its status says so, and
	// Finalizers are those that it has.
	Created    time.Time `json:"created,omitzero"`
	Ready      string    `json:"ready,omitempty"`
	Finalizers []string  `json:"finalizers,omitempty"`
	// Gone is true if it had gone by then.
	Gone bool `json:"gone,omitempty"`
}
