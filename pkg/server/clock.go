package server

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
)

// rememberEvery is how much later the time has to be before it is written again: flash wears.
const rememberEvery = time.Hour

// clock is the wall clock of a device that may have no battery: at boot such a clock is years behind. The last time that
// is known is kept in the data directory, and while the clock is before that, time goes on from there.
type clock struct {
	path string
	wall func() time.Time
	// last was the latest time when the process began, or the zero time if nobody knows it; then is when that was, on a
	// clock that no jump moves.
	last time.Time
	then time.Time
	// written is the time in the file.
	written time.Time
}

// openClock reads the last known time, and says so if the clock is behind it.
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
	c.written = c.last
	if now := wall(); now.Before(c.last) {
		logrus.WithFields(logrus.Fields{"clock": now.UTC().Format(time.RFC3339), "lastKnown": c.last.UTC().Format(time.RFC3339), "file": c.path}).
			Warn("the clock is behind the last time that reap has seen: certificates go by that time until the clock is set")
	}
	return c
}

// now returns the time: that of the clock, or of the last time that is known and what has passed since, whichever is
// later.
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

// remember writes the time, if an hour has passed since the last time that it did.
func (c *clock) remember() {
	now := c.now().UTC().Truncate(time.Second)
	if now.Sub(c.written) < rememberEvery {
		return
	}
	next := c.path + ".next"
	err := os.WriteFile(next, []byte(now.Format(time.RFC3339)+"\n"), 0o600)
	if err == nil {
		err = os.Rename(next, c.path)
	}
	if err != nil {
		logrus.WithError(err).Warn("cannot write down the time; a clock that is behind at the next start will not be noticed")
		return
	}
	c.written = now
}
