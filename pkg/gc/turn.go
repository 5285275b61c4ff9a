package gc

import "errors"

const (
	// maxRounds bounds how often one turn of an object decides again because the object
	// has changed since the decision. Each round costs at most a read and a write.
	maxRounds = 8
	// maxHeavyRounds is the same for an object with many references: each of its rounds
	// is expensive for the server.
	maxHeavyRounds = 2
)

// These end a turn of an object before all is done.
var (
	errKeepsChanging = errors.New("the object changes faster than it can be decided about")
	// errPutAside: another attempt is reading an owner that this one needs, and puts the
	// object into the queue again. It is neither success nor failure.
	errPutAside = errors.New("another attempt is reading an owner")
	// errTurnOver: the object has had its share, and comes back after the others that
	// wait.
	errTurnOver = errors.New("the object's turn is over")
)
