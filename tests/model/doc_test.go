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
//	histories_test.go   short histories that once came out wrong
//
// What the oracle knows of the three policies: an object may go when each of its
// references dangles or names an owner that waits; one whose owner was orphaned may
// not. An owner in foreground deletion may wait as long as anything that is there
// blocks it, be that held by somebody, kept by an unknown reference or part of a ring;
// it must not be let go before what had arrived when its deletion settled.
package model
