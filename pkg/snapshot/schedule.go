package snapshot

import (
	"context"
	"io"
	"time"

	"github.com/sirupsen/logrus"
)

// Schedule makes snapshots of a running server at intervals.
type Schedule struct {
	Maker *Maker
	// Dir is the folder for snapshots, Interval the time between two of them, Retain the number to keep.
	Dir      string
	Interval time.Duration
	Retain   int
	Log      *logrus.Entry
}

// retryAfter is how soon a snapshot that has failed is tried again, unless the interval is shorter.
const retryAfter = 5 * time.Minute

// Run makes snapshots until ctx is cancelled. The newest snapshot in the folder determines when the next is due, so that a
// device that is often switched off makes neither a snapshot at each start nor none at all.
func (s *Schedule) Run(ctx context.Context) {
	wait := s.due(ctx, time.Now())
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		if wait = s.Interval; !s.once(ctx) {
			wait = min(s.Interval, retryAfter)
		}
	}
}

// due returns the time until the next snapshot. It is at most one interval, even if the clock has gone back.
func (s *Schedule) due(ctx context.Context, now time.Time) time.Duration {
	all, err := List(ctx, s.Dir, false, nil)
	if err != nil {
		return 0 // most likely there is no folder yet
	}
	for i := len(all) - 1; i >= 0; i-- {
		if f := all[i]; f.Problem == "" && f.number > 0 {
			left := s.Interval - now.Sub(f.Made)
			return max(0, min(left, s.Interval))
		}
	}
	return 0
}

// once makes a snapshot and removes old ones.
func (s *Schedule) once(ctx context.Context) bool {
	f, err := Save(s.Dir, func(out io.Writer) (Manifest, error) { return s.Maker.Make(ctx, out, true) })
	if ctx.Err() != nil {
		return false
	}
	if err != nil {
		s.Log.WithError(err).WithField("dir", s.Dir).Error("snapshot failed; will retry")
		return false
	}
	s.Log.WithField("file", f.Path).WithField("revision", f.Revision).WithField("keys", f.Keys).Info("snapshot saved")
	removed, err := Prune(ctx, s.Dir, s.Retain, false)
	if err != nil && ctx.Err() == nil {
		s.Log.WithError(err).Warn("cannot remove old snapshots")
	}
	for _, f := range removed {
		s.Log.WithField("file", f.Path).Info("old snapshot removed")
	}
	return true
}
