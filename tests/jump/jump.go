// Package jump makes the times that a process reads once somebody has set the clock of its machine.
package jump

import (
	"fmt"
	"time"
	"unsafe"
)

// By is a moment after the wall clock was set by so much, in whole seconds, while the process ran: what counts elapsed time has not
// jumped. at has to come from time.Now. The first word of such a time.Time has the seconds of the wall clock above 30 bits of
// nanoseconds.
func By(at time.Time, by time.Duration) time.Time {
	to := at
	*(*uint64)(unsafe.Pointer(&to)) += uint64(int64(by/time.Second)) << 30
	if to.Sub(at) != 0 || to.Unix()-at.Unix() != int64(by/time.Second) {
		panic(fmt.Sprintf("a time of this Go is made otherwise: %s jumped by %s to %s", at, by, to))
	}
	return to
}
