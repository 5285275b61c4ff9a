package reaptest

import (
	"fmt"
	"os"
	"os/exec"
)

const howToGet = "Build it in a checkout of github.com/reap-dev/reap (./scripts/build makes bin/reap), and put it on PATH or " +
	"give its absolute path in $REAP_BINARY"

// findBinary returns the binary to run: given, if it says anything.
func findBinary(given string) (string, error) {
	from := ""
	if given == "" {
		given, from = os.Getenv("REAP_BINARY"), " (from $REAP_BINARY)"
	}
	if given == "" {
		given, from = "reap", ""
	}
	path, err := exec.LookPath(given)
	if err != nil {
		return "", fmt.Errorf("no reap binary%s: %w. %s", from, err, howToGet)
	}
	return path, nil
}
