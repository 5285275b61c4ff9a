package escape

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

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

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"plain é🙂": "plain é🙂", "a\nb\tc": `a\nb\tc`, "\x1b[31m\u009b\u202e": `\x1b[31m\u009b\u202e`, "\xff": "\ufffd", "'": "'",
	} {
		if got := Text(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}
