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
//	model_test.go       all of it together, and time
//	action_test.go      what can happen, as values
//	users_test.go       what users do
//	observe_test.go     what the monitors and discovery do
//	queue_test.go       what the workers do, and what waits for them
//	rest_test.go        how a world comes to rest
//	oracle_test.go      what may go at any moment, and what must be left in the end
//	judge_test.go       every write of the collector is held against the oracle
//	witness_test.go     what the collector has seen and must not forget
//	state_test.go       the canonical state, to know a world that was there before
//	exhaustive_test.go  every order of steps, small worlds
//	smallworlds_test.go those worlds
//	random_test.go      worlds of up to thousands of objects; shrinking of failures
//	generator_test.go   their steps
//	histories_test.go   short histories that once came out wrong
//
// What the oracle knows of the three policies: an object may go when each of its
// references dangles or names an owner that waits; one whose owner was orphaned may
// not. An owner in foreground deletion may wait as long as anything that is there
// blocks it, be that held by somebody, kept by an unknown reference or part of a ring;
// it must not be let go before what had arrived when its deletion settled.
package model
