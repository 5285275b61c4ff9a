package program

import (
	"os"
	"slices"
	"strings"
)

// Engine is the endpoint of servers that a test gives none: "" for SQLite, or etcd, which REAP_TEST_ENGINE names.
var Engine = os.Getenv("REAP_TEST_ENGINE")

// OnEngine returns a server's arguments with the engine, if they name no datastore.
func OnEngine(args []string) []string {
	named := func(arg string) bool { return strings.HasPrefix(arg, "--datastore-endpoint") }
	if Engine == "" || slices.ContainsFunc(args, named) {
		return args
	}
	return append([]string{"--datastore-endpoint", Engine}, args...)
}
