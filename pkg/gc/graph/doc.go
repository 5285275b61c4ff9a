// Package graph keeps owners and dependents in memory.
//
//	watch events ──Upsert/Deleted/Vanished──▶ ┌────────┐ ──View──▶ decide
//	discovery    ──SetCatalog───────────────▶ │ Graph  │
//	live reads   ──Learn────────────────────▶ └────────┘ ──keys to reconsider──▶ queue
//
// An object is a node under its UID and resource; two resources may show one
// UID. A reference keeps the coordinates that its object declares and is matched
// by them, never by UID alone, so that an object with a wrong reference cannot
// change what becomes of one with a right reference. A UID that references name
// and no monitor has shown is a virtual node: it holds its dependents and what
// live reads have proved about it.
//
// The package promises that it does no I/O, reads no clock and starts no
// goroutine, so that tests can drive it through millions of histories. It does
// not promise to know everything: absence from the graph proves nothing, and
// only a Fact says that an object is gone.
package graph
