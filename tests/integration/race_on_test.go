//go:build race

package integration

// slowness multiplies how long is waited at most, and divides how many objects some tests make: the race detector makes a
// server many times slower.
const slowness = 4

// underRace are the tests that run with the race detector if no others are asked for: a server of its build is up to ten
// times as slow, so that all of them take half an hour. These have every part of a server at work at once, next to
// others and while it stops; what they leave out asks the same code other questions.
// scripts/test -race -run . tests/integration runs all.
var underRace = []string{
	"TestRulesHoldWithHostileUsers",                    // users, rings, kinds that come and go, and all policies at once
	"TestDeletionsSurviveSIGTERM",                      // a stop in the middle of the work, and a start with work waiting
	"TestOrphaningLeavesDependentsAndTheirOtherOwners", // the second queue
	"TestCRDIsCreatedAndDeletedRepeatedly",             // monitors that start and end
	"TestNamespaceWithWorkloadsInItEnds",               // the controllers
	"TestSharedDatastore",                              // the election: a leader that is killed, one that gives way
	"TestWhyNamesWhatHoldsADeletion",                   // reports, beside the workers
	"TestGraphvizDrawsTheGraph",                        // the whole graph is read
	"TestResourceThatCannotBeListedStopsNothing",       // a monitor that fails, metrics and readiness
	"TestPause",                            // the gate, across a restart
	"TestCertificatesAreRenewedAndRotated", // certificates that are renewed under a server's hands
}
