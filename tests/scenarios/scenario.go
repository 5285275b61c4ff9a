// Package scenarios holds the collector's behaviours as readable steps, one file each
// in testdata. See Scenario for the fields.
//
// An object is written as
//
//	RESOURCE/[NAMESPACE/]NAME [(FINALIZER, …)] [<- KIND/NAME [FLAG …], …]
//
// in namespace ns unless another is named. Its UID is the name and a count of the
// objects that had the name: the first "web" is web-1. A reference's flags are
// blocking, unblocked (its blockOwnerDeletion is false), controller, uid=… (NAME-1 by
// default), and version=… for the apiVersion (the kind's preferred one by default).
// Expected objects are written the same way, with the word "deleting" after the name
// of an object that has a deletionTimestamp.
//
// Time passes only while a step waits for something that takes time. Foreground deletions
// time out only after a collector's first half minute; they are tested in pkg/gc and
// tests/integration.
package scenarios

// Scenario is one behaviour.
type Scenario struct {
	// Says is the behaviour in a sentence.
	Says  string `yaml:"says"`
	Steps []Step `yaml:"steps"`
}

// Step is what users do, and then the state that is expected once the collector has
// come to rest. The actions of a step happen in the order of these fields.
type Step struct {
	Say string `yaml:"say"`
	// Fault lists faults that begin: see faults.go. They last until "none".
	Fault []string `yaml:"fault"`
	// Meanwhile are updates by users who are quicker than the collector: each is made
	// just before the collector's first delete of the object takes effect. They end
	// the previous fault, and end with the next one.
	Meanwhile []string `yaml:"meanwhile"`
	// Define makes a kind be served: PLURAL.GROUP KIND VERSION… [cluster]
	Define []string `yaml:"define"`
	Create []string `yaml:"create"`
	// Update sets the finalizers and references of an object to those that are written.
	Update []string `yaml:"update"`
	// Ask changes the specs of objects: their generations grow.
	Ask []string `yaml:"ask"`
	// Observe makes the controllers of objects write that they have observed the
	// latest generation.
	Observe []string `yaml:"observe"`
	// Delete deletes as a user: OBJECT [Foreground|Background|Orphan|orphanDependents]
	Delete []string `yaml:"delete"`
	// Relist makes the monitors of resources list again.
	Relist []string `yaml:"relist"`
	// Collector is "start", "start without cycle detection", "start with sweeps",
	// "stop", "pause" or "resume". While the collector is paused, it is at rest once
	// the graph shows what exists. A sweep takes five seconds to believe in a
	// difference.
	Collector string `yaml:"collector"`
	// Await holds calls to wait for, each "CALL" or "CALL xN", before anything is
	// compared: during a fault the collector may never come to rest. Without Await,
	// the step waits for the collector's rest; with an empty one, for nothing.
	Await []string `yaml:"await"`
	// Rest makes the step wait for the collector's rest after Await, too.
	Rest bool `yaml:"rest"`

	// Objects are all existing objects except definitions.
	Objects []string `yaml:"objects"`
	// Graph holds the expected counts of the graph.
	Graph *Graph `yaml:"graph"`
	// Calls are those that the collector has made in this step, in any order, without
	// those of its monitors. A call that begins with "may" is optional, because events
	// can be late.
	Calls []string `yaml:"calls"`
	// Gone are the objects that ended in this step, in this order.
	Gone []string `yaml:"gone"`
	// Events are the warnings that the collector has written so far.
	Events []string `yaml:"events"`
}

// Graph holds the graph's counts, including definitions.
type Graph struct {
	Nodes   int `yaml:"nodes"`
	Edges   int `yaml:"edges"`
	Virtual int `yaml:"virtual"`
}
