// Package bubble runs tests in the bubbles of testing/synctest, in which time passes when every goroutine waits.
package bubble

import (
	"testing"
	"testing/synctest"
)

// Test is synctest.Test. With the race detector all goroutines of the process share one core until f has returned: a bubble's
// timers share what the detector knows of one thread, and two that fire at once, as a timer's channel that is read while another
// goroutine's sleep ends, make it end the process with SIGSEGV or "CHECK failed" (https://go.dev/issue/78156). The detector needs
// no second core, since it looks at what happens before what. Tests may call it concurrently.
func Test(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	defer share()()
	synctest.Test(t, f)
}
