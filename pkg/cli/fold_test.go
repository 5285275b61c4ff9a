package cli

import "testing"

// TestFold: a text goes below its column; what is to be copied stays whole.
func TestFold(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"short  line\n", "short  line\n"},
		{"reason      one two three four five six seven\nnext  none\n", "reason      one two three four\n            five six seven\nnext  none\n"},
		{"            one two three four five six seven\n", "            one two three four\n            five six seven\n"},
		{"  reap release configmaps/one -n shop --finalizer x\n      one two three four five six seven\n", "  reap release configmaps/one -n shop --finalizer x\n      one two three four five\n      six seven\n"},
		{"one two three four five six seven eight\n", "one two three four five six\nseven eight\n"},
		{"STEP  DELETED  WHAT BECOMES OF IT\n1     └─ pod   one two three four\n", "STEP  DELETED  WHAT BECOMES OF\n               IT\n1     └─ pod   one two three\n               four\n"},
		{"STEP  DELETED  WHAT\n1     pod      \x1b[31mone two three four\x1b[0m\n\none two three\n", "STEP  DELETED  WHAT\n1     pod      \x1b[31mone two three\n               four\x1b[0m\n\none two three\n"},
		{"A VERY LONG COLUMN  ANOTHER  WHAT\nis not folded in so few        columns\n", "A VERY LONG COLUMN  ANOTHER  WHAT\nis not folded in so few        columns\n"},
	} {
		if got := fold(c.text, 30); got != c.want {
			t.Errorf("%q: got %q, want %q", c.text, got, c.want)
		}
	}
}
