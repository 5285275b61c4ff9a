package datastore

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/reap-dev/reap/tests/bubble"
)

// TestDiskThatTakesNoWritesIsLoggedAtGrowingIntervals: after a minute, two, four and so on.
func TestDiskThatTakesNoWritesIsLoggedAtGrowingIntervals(t *testing.T) {
	h := new(logtest.Hook)
	was := logrus.StandardLogger().ReplaceHooks(logrus.LevelHooks{})
	defer logrus.StandardLogger().ReplaceHooks(was)
	logrus.AddHook(h)
	bubble.Test(t, func(t *testing.T) {
		d := newDisk(t.TempDir(), 0, prometheus.NewRegistry())
		d.refuse(&trouble{kind: unavailable, dir: d.dir, err: syscall.EIO})
		for range 20 {
			time.Sleep(30 * time.Second)
			d.repeat()
		}
	})
	var told []string
	for _, r := range h.AllEntries() {
		if r.Message == "the disk still takes no writes" {
			lasting, _ := r.Data["for"].(string)
			told = append(told, lasting)
		}
	}
	if !slices.Equal(told, []string{"1m0s", "3m0s", "7m0s"}) {
		t.Errorf("told after %q", told)
	}
}
