// Package size says how much tests try. A search and a repetition are one test with a number for each size.
package size

import (
	"os"
	"testing"
)

// variable asks for the long size if it is "long".
const variable = "REAP_TEST_SIZE"

// Of returns the first under `go test -short`, the last in a run before a release (scripts/test --release), the second
// otherwise.
func Of[T any](short, gate, long T) T {
	switch {
	case testing.Short():
		return short
	case os.Getenv(variable) == "long":
		return long
	default:
		return gate
	}
}

// Power tells the summary of scripts/test what a test has tried: numbers with names, such as "worlds=2000 cut=0". Call
// it once, when the test has done its work.
func Power(t *testing.T, tried string) {
	t.Helper()
	t.Attr("power", tried)
}
