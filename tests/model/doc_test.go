// Package model drives the real graph and the real decision through simulated
// worlds and holds the outcome against an oracle written apart from both.
//
//	server (objects) ──events──▶ monitor (stream, store) ──▶ graph.Graph
//	   ▲      ▲                                                  │ keys
//	 users    └───── calls, one step each ───── worker ◀─────────┘
//	                                              └─ decide.Decide
//
//	world_test.go       the API server: what exists, preconditions, what it tells
//	monitor_test.go     lists and watches, as pkg/gc/observe turns them into calls
//	worker_test.go      pkg/gc/attempt.go, broken up into steps
//	model_test.go       all of it together: actions, and how it comes to rest
//	oracle_test.go      what may go at any moment, and what must be left in the end
//	state_test.go       the canonical state, to know a world that was there before
//	exhaustive_test.go  every order of steps, small worlds
//	random_test.go      worlds of up to thousands of objects; shrinking of failures
//	defects_test.go     what is known to be wrong
//
// Foreground deletion and orphaning go into worker_test.go as further calls, into
// world_test.go as the finalizers that the server sets, and into oracle_test.go
// as a waiting owner and a reference that has to be dropped.
package model
