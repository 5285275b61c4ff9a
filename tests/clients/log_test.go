package clients

import (
	"bytes"
	"fmt"
	"regexp"
)

// bad is what never belongs into a log; tests/program, which is part of another module, says more.
var bad = regexp.MustCompile(`DATA RACE|the graph is broken|(?m:^(panic|fatal error): )|[Oo]bserved a panic|panic'd|panicked: true`)

// checkLog returns an error if a server's log holds what never belongs into one.
func checkLog(log []byte) error {
	if at := bad.FindIndex(log); at != nil {
		end := min(len(log), at[0]+8<<10)
		return fmt.Errorf("in the log: %s", log[bytes.LastIndexByte(log[:at[0]], '\n')+1:end])
	}
	return nil
}
