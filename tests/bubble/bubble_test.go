package bubble

import (
	"sync"
	"testing"
	"time"
)

// TestTimersThatFireAtOnce: channels of timers are read at the moment at which sleeps end. With synctest.Test itself and the race
// detector this ends the process nearly every time.
func TestTimersThatFireAtOnce(t *testing.T) {
	for range 100 {
		Test(t, func(*testing.T) {
			var all sync.WaitGroup
			for range 50 {
				all.Go(func() {
					for range 20 {
						timer := time.NewTimer(time.Millisecond)
						time.Sleep(time.Millisecond)
						<-timer.C
					}
				})
			}
			all.Wait()
		})
	}
}
