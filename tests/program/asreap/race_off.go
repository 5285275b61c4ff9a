//go:build !race

package asreap

import (
	"fmt"
	"os"

	"github.com/reap-dev/reap/tests/program"
)

// Main exits with an error if there is no built binary that tests could start. Else it returns.
func Main() {
	if err := program.Built(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
