package envtest

import (
	"os"
	"strings"
	"testing"
)

// listFile says what is special about some packages and tests, each with its reason:
//
//	with | package | NAME=VALUE | reason       the package's tests have this environment variable
//	never | package | test | reason            the test does not run
//	leaves | package | program | reason        the package's tests end and leave this program running
//
// A package is named by the last element of its module's path and its folder there.
const listFile = "exceptions"

// exception is a line of listFile.
type exception struct{ kind, pkg, value string }

func readExceptions(t *testing.T) (all []exception) {
	t.Helper()
	raw, err := os.ReadFile(listFile)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		parts := strings.Split(line, " | ")
		if len(parts) != 4 || parts[0] != "with" && parts[0] != "never" && parts[0] != "leaves" {
			t.Fatalf("%s: not understood: %q", listFile, line)
		}
		all = append(all, exception{parts[0], parts[1], parts[2]})
	}
	return all
}
