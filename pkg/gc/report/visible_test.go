package report

import (
	"bytes"
	"testing"
)

// TestReadyIsVisible: the status of a Ready condition cannot colour the terminal or forge a line.
func TestReadyIsVisible(t *testing.T) {
	var b bytes.Buffer
	tree := Tree{Count: 1, Nodes: []TreeNode{{Live: Live{Ready: "True\n" + forged + "\x1b]0;x\a\x1b[31m\u009b2J\u202e"}}}}
	if err := tree.Print(&b); err != nil {
		t.Fatal(err)
	}
	mustBeHarmless(t, b.String())
}
