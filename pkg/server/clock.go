package server

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/reap-dev/reap/pkg/pki"
)

// rememberEvery is the minimum time between two writes of the file: flash wears out.
const rememberEvery = time.Hour

// clock is the wall clock of a device that may have no battery, so that its clock may be years behind after boot. The
// last known time is kept in the data directory. While the wall clock is before it, clock counts on from the last known
// time.
type clock struct {
	path string
	wall func() time.Time
	// last is the last known time from the file, or zero if there is none. then is when it was read, with a monotonic
	// reading that jumps of the wall clock do not change.
	last time.Time
	then time.Time
	// written is the time in the file.
	written time.Time
}

// openClock reads the last known time, and logs a warning if the clock is behind it.
func openClock(dataDir string, wall func() time.Time) *clock {
	c := &clock{path: filepath.Join(dataDir, "last-time"), wall: wall, then: wall()}
	raw, err := os.ReadFile(c.path)
	if err == nil {
		c.last, err = time.Parse(time.RFC3339, strings.TrimSpace(string(raw)))
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return c
	case err != nil:
		logrus.WithError(err).Warn("cannot read the last known time; going by the clock alone")
		return c
	}
	if pki.ClockIsAhead(c.last) {
		logrus.WithFields(logrus.Fields{"clock": c.then.UTC().Format(time.RFC3339), "lastKnown": c.last.UTC().Format(time.RFC3339), "file": c.path}).
			Warn("the last known time cannot be right; going by the clock alone")
		c.last = time.Time{}
		return c
	}
	c.written = c.last
	if now := wall(); now.Before(c.last) {
		logrus.WithFields(logrus.Fields{"clock": now.UTC().Format(time.RFC3339), "lastKnown": c.last.UTC().Format(time.RFC3339), "file": c.path}).
			Warn("the clock is behind the last time that reap has seen: certificates go by that time until the clock is set")
	}
	return c
}

// now returns the wall clock's time, or the last known time plus what has elapsed since it was read, whichever is later.
func (c *clock) now() time.Time {
	wall := c.wall()
	if c.last.IsZero() {
		return wall
	}
	if known := c.last.Add(wall.Sub(c.then)); known.After(wall.Round(0)) {
		return known
	}
	return wall
}

// remember writes the time to the file, at most once an hour, and never a time that a clock of the far future shows:
// certificates would go by it for ever.
func (c *clock) remember() {
	now := c.now().UTC().Truncate(time.Second)
	if now.Sub(c.written) < rememberEvery || pki.ClockIsAhead(now) {
		return
	}
	// Synced: after a power cut an empty file would be worse than an old one.
	if err := replaceSynced(c.path, []byte(now.Format(time.RFC3339)+"\n")); err != nil {
		logrus.WithError(err).Warn("cannot save the time; a clock that is behind at the next start will go unnoticed")
		return
	}
	c.written = now
}
