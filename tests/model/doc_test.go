// Package model drives the real collector through simulated worlds and compares the outcome
// with an independent oracle.
//
//	server (objects) ──events──▶ monitor (stream, store) ──▶ graph.Graph
//	   ▲      ▲                                                  │ keys
//	 users    └───── calls, one step each ───── worker ◀─────────┘
//	                                         gc.Steps, or a copy
//
// Random worlds drive all of the real code except monitors, queues and the code that starts
// them. Each turn of a worker is a goroutine that stops before a call reaches the server and
// again before the answer comes back, until a step of the world lets it go on. Only one runs
// at a time, so that a seed determines everything. The exhaustive search has to compare
// states, and to return to them: it drives the real graph and the real decisions, and copies
// of the rest, which are compared with the real code call by call.
//
// The exhaustive search visits every state of each small world, in the gate too. It continues
// from each state once, however many orders of steps lead there. A state is everything that
// the world, the collector and the oracle know, ages included. The search has one worker,
// whose calls do not fail; a watch or list fails only where a world says so; and time passes
// only when something waits for it. Random worlds have more workers, failures and times.
// With the race detector and -short the search is cut short, and says where.
//
//	world_test.go       the API server: what exists, preconditions, what it tells
//	monitor_test.go     lists and watches, as pkg/gc/observe turns them into calls
//	turn_test.go        the real code's turns
//	wire_test.go        its requests, and the server's answers
//	worker_test.go      a copy of pkg/gc/attempt.go and verifier.go, broken up into steps
//	orphaner_test.go    a copy of pkg/gc/orphaner.go and search.go
//	breaker_test.go     a copy of pkg/gc/breaker.go
//	conformance_test.go the copies make the real code's calls
//	deadline_test.go    when a foreground deletion is given up on
//	model_test.go       all of it together, and time
//	action_test.go      what can happen, as values
//	users_test.go       what users do
//	observe_test.go     what the monitors and discovery do
//	queue_test.go       what the workers do, and what waits for them
//	rest_test.go        how a world comes to rest
//	oracle_test.go      what may go at any moment, and what must be left in the end
//	judge_test.go       every write of the collector is held against the oracle
//	rings_test.go       what the oracle knows of rings
//	witness_test.go     what the collector has seen and must not forget
//	state_test.go       the canonical state, to know a world that was there before
//	exhaustive_test.go  every order of steps, small worlds
//	smallworlds_test.go those worlds; ringworlds_test.go, timeoutworlds_test.go: more
//	random_test.go      worlds of up to thousands of objects; shrinking of failures
//	generator_test.go   their steps
//	plan_test.go        deletions are foretold by pkg/gc/plan, then made
//	restore_test.go     backups are restored under new UIDs and relinked by pkg/gc/relink
//	histories_test.go   short histories that once came out wrong
//
// The oracle's rules for the three policies: an object may be deleted when each of its
// references dangles or names an owner that waits; an object whose owner was orphaned may
// not. An owner in foreground deletion may wait as long as an existing object blocks it,
// whether a finalizer holds that object or an unknown reference keeps it. The owner must not
// be released before the dependents that had arrived when its deletion settled, unless its
// deadline has passed. Where deletions time out, none may wait for ever.
//
// The rules for rings: where the collector looks for rings, none may be left. A reference may
// cease to block only if that very state of its object was in a ring, on the server, at some
// moment since the look began. The oracle cannot require more: a user may take a ring apart
// between the last read and the first patch, and a patch carries its own object's version
// only.
//
// A foreground deletion may be given up on only once its timeout has passed, and in addition
// the time of each descendant that the graph must have known. The timeout counts from the
// object's deletion, or from the moment when the graph learnt that a direct dependent had
// gone, if that is later. Pauses do not count. An object may have a timeout of its own,
// which may be never. The deadline that the collector computes may not be later than if the
// last descendant had gone just now.
//
// While the collector is paused it may send no write. A write sent before may still arrive.
//
// When a namespace is deleted, nothing is created in it, and its objects are deleted in the
// background, kind by kind, whatever they wait for.
//
// A kind that is no longer served keeps its objects in the graph, unless its definition is
// known to be deleted: they still block their owners and hold up every orphaning.
//
// Not simulated: controllers that are behind, aggregated servers, and the delay before
// pkg/gc/breaker.go searches again. The copies know no pauses.
package model
