package program

import (
	"bytes"
	"fmt"
	"regexp"
)

// shownOfLog is how much of a log an error shows, from the line that is bad.
const shownOfLog = 8 << 10

// bad is what never belongs into a log: a data race, a graph whose invariants do not hold, and a panic, whether the process survives it or
// not. The API server has a harmless message about "panicked: false".
var bad = regexp.MustCompile(`DATA RACE|the graph is broken|(?m:^(panic|fatal error): )|[Oo]bserved a panic|panic'd|panicked: true`)

// CheckLog returns an error if a server's log holds what never belongs into one.
func CheckLog(log []byte) error {
	if at := bad.FindIndex(log); at != nil {
		end := min(len(log), at[0]+shownOfLog)
		return fmt.Errorf("in the log: %s", log[bytes.LastIndexByte(log[:at[0]], '\n')+1:end])
	}
	return nil
}
