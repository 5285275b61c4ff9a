package report

import (
	"bytes"
	"encoding/json"
	"strings"
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

// TestJSONIsVisible: C1 and direction marks are escapes in JSON, and decode to what they were.
func TestJSONIsVisible(t *testing.T) {
	const text = "é\u007f\u0080\u009b\u200e\u202e\u2066\u2028"
	var b bytes.Buffer
	if err := WriteJSON(&b, text, ""); err != nil {
		t.Fatal(err)
	}
	if i := strings.IndexFunc(strings.TrimSuffix(b.String(), "\n"), unprintable); i >= 0 {
		t.Errorf("%q", b.String())
	}
	var back string
	if err := json.Unmarshal(b.Bytes(), &back); err != nil || back != text {
		t.Errorf("%q, %v", back, err)
	}
}
