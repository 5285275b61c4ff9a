package server

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reap-dev/reap/pkg/datastore"
	"github.com/reap-dev/reap/tests/bubble"
)

// TestCollectorIsHeldUntilTheStoreIsWhole: through a check that fails and one that finds damage, up to one that finds nothing.
func TestCollectorIsHeldUntilTheStoreIsWhole(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		answers := []struct {
			checked datastore.Checked
			err     error
			says    string
		}{
			{err: errors.New("disk is gone"), says: "disk is gone"},
			{checked: datastore.Checked{Rows: 4, Problems: []string{"revision 3, \"/registry/x\": an index does not lead to it"}}, says: "/registry/x"},
			{checked: datastore.Checked{Rows: 4}},
		}
		checks := 0
		c := &storeCheck{again: time.Minute, whole: make(chan struct{}), began: time.Now()}
		c.verify = func(_ context.Context, progress func(done, all int64)) (datastore.Checked, bool, error) {
			time.Sleep(10 * time.Second)
			progress(1, 4)
			if why := c.why(); checks == 0 && !strings.Contains(why, "25 % done, about 30s left") {
				t.Errorf("a quarter was read in ten seconds, and it says %q", why)
			}
			answer := answers[checks]
			checks++
			return answer.checked, true, answer.err
		}
		go c.run(t.Context())
		for _, a := range answers[:2] {
			time.Sleep(10 * time.Second)
			synctest.Wait()
			if why := c.why(); c.isWhole() || c.ratio() >= 1 || !strings.Contains(why, a.says) {
				t.Errorf("after check %d: whole %v, %q, want %q", checks, c.isWhole(), why, a.says)
			}
			time.Sleep(time.Minute)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if !c.isWhole() || c.why() != "" || c.ratio() != 1 || checks != 3 {
			t.Errorf("after %d checks it is held: %q", checks, c.why())
		}
	})
}

// TestStoreElsewhereHoldsNothing: it is not read.
func TestStoreElsewhereHoldsNothing(t *testing.T) {
	c := newStoreCheck(&datastore.Store{})
	c.run(t.Context())
	if !c.isWhole() || c.why() != "" {
		t.Errorf("the collector is held: %q", c.why())
	}
}
