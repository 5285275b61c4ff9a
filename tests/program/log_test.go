package program

import (
	"strings"
	"testing"
)

func TestCheckLogFindsWhatIsBad(t *testing.T) {
	const around = "level=info msg=\"reap is ready\"\n"
	for _, line := range []string{
		"WARNING: DATA RACE", `level=error msg="the graph is broken" error="a node is missing"`, "panic: runtime error: index out of range", "fatal error: all goroutines are asleep - deadlock!",
		`level=error msg="Observed a panic"`, "E1125 wrap.go:58] apiserver panic'd on GET /", `level=error msg="timeout or abort" panicked: true`,
	} {
		err := CheckLog([]byte(around + line + "\n" + around))
		if err == nil || !strings.Contains(err.Error(), "in the log: "+line) {
			t.Errorf("%s: %v", line, err)
		}
	}
	for _, line := range []string{"", `level=info msg="handled" panicked: false`, "level=info msg=\"a user's text: panic: \""} {
		if err := CheckLog([]byte(around + line + "\n")); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
}
