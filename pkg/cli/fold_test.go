package cli

import "testing"

// TestFold: a text goes below its column; what is to be copied stays whole.
func TestFold(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"short  line\n", "short  line\n"},
		{"reason      one two three four five six seven\nnext  none\n", "reason      one two three four\n            five six seven\nnext  none\n"},
		{"            one two three four five six seven\n", "            one two three four\n            five six seven\n"},
		{"  reap release configmaps/one -n shop --finalizer x\n      one two three four five six seven\n", "  reap release configmaps/one -n shop --finalizer x\n      one two three four five\n      six seven\n"},
		{"v1 ConfigMap root  root  true  is in foreground deletion\n", "v1 ConfigMap root  root  true  is in foreground deletion\n"},
	} {
		if got := fold(c.text, 30); got != c.want {
			t.Errorf("%q: got %q, want %q", c.text, got, c.want)
		}
	}
}
