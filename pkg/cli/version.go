package cli

import "fmt"

// What was built, set by scripts/build with -ldflags "-X github.com/reap-dev/reap/pkg/cli.Version=…".
var (
	Version = "dev"
	Commit  = "unknown"
	Date    = "unknown"
)

func version() string {
	return fmt.Sprintf("%s (commit %s, built %s)", Version, Commit, Date)
}
