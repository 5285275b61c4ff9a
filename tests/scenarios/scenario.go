// Package scenarios holds the collector's behaviours, one file each in testdata,
// as steps that a person can read. See Scenario for what they may say.
//
// An object is written as
//
//	RESOURCE/[NAMESPACE/]NAME [(FINALIZER, …)] [<- KIND/NAME [FLAG …], …]
//
// in namespace ns unless another is named. Its UID is the name and how many objects
// of the name there have been: the first "web" is web-1. A reference's flags are
// blocking, unblocked (its blockOwnerDeletion is false), controller, uid=…, which is
// NAME-1 otherwise, and version=…, for the apiVersion, which is the kind's preferred
// one otherwise. What is expected is written the same way, with the word "deleting"
// after the name of an object that has a deletionTimestamp.
//
// No scenario turns the clock: foreground deletions that time out, which none does in
// a collector's first half minute, are with the tests of pkg/gc and tests/integration.
package scenarios

// Scenario is one behaviour.
type Scenario struct {
	// Says is the behaviour in a sentence.
	Says  string `yaml:"says"`
	Steps []Step `yaml:"steps"`
}

// Step is what users do, then what is to be the case once the collector has come to
// rest. Within a step things are done in the order of these fields.
type Step struct {
	Say string `yaml:"say"`
	// Fault begins: see faults.go. It lasts until "none".
	Fault []string `yaml:"fault"`
	// Meanwhile are updates by users who are quicker: each is made just before the
	// collector's first delete of the object takes effect. They end the fault before,
	// and with the next fault.
	Meanwhile []string `yaml:"meanwhile"`
	// Define makes a kind be served: PLURAL.GROUP KIND VERSION… [cluster]
	Define []string `yaml:"define"`
	Create []string `yaml:"create"`
	// Update gives an object the finalizers and references that are written.
	Update []string `yaml:"update"`
	// Ask changes what is asked for in objects' specs: their generations grow.
	Ask []string `yaml:"ask"`
	// Observe lets objects' controllers say that they have seen all that is asked for.
	Observe []string `yaml:"observe"`
	// Delete deletes as a user: OBJECT [Foreground|Background|Orphan|orphanDependents]
	Delete []string `yaml:"delete"`
	// Relist makes the monitors of resources list again.
	Relist []string `yaml:"relist"`
	// Collector is "start", "start without cycle detection", "start with sweeps", "stop",
	// "pause" or "resume". While it is paused, its rest is that the graph shows what
	// exists. A sweep takes five seconds to believe in a difference.
	Collector string `yaml:"collector"`
	// Await holds calls to wait for, each "CALL" or "CALL xN", before anything is
	// looked at: what lasts as long as a fault does not come to rest. Without it the
	// collector's rest is waited for; with an empty one, nothing.
	Await []string `yaml:"await"`
	// Rest waits for the collector's rest after Await, too.
	Rest bool `yaml:"rest"`

	// Objects are all that exist, but definitions.
	Objects []string `yaml:"objects"`
	// Graph is what the graph counts.
	Graph *Graph `yaml:"graph"`
	// Calls are those that the collector has made in this step, in any order,
	// without those of its monitors. One that begins with "may" is made or not, as
	// often as events are late.
	Calls []string `yaml:"calls"`
	// Gone are the objects that ended in this step, in this order.
	Gone []string `yaml:"gone"`
	// Events are the warnings that the collector has written so far.
	Events []string `yaml:"events"`
}

// Graph is what the graph counts, definitions among it.
type Graph struct {
	Nodes   int `yaml:"nodes"`
	Edges   int `yaml:"edges"`
	Virtual int `yaml:"virtual"`
}
