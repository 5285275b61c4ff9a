package main

import (
	"context"
	"time"
)

// idleness measures the cost of a server without requests.
func (b *bench) idleness(ctx context.Context) error {
	dir, err := b.newDir()
	if err != nil {
		return err
	}
	return b.with(ctx, dir, nil, func(s *server) error {
		if _, err := s.rest(ctx); err != nil {
			return err
		}
		before, err := effortOf(s.cmd.Process.Pid)
		if err != nil {
			return err
		}
		began := time.Now()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(b.idle):
		}
		after, err := effortOf(s.cmd.Process.Pid)
		if err != nil {
			return err
		}
		m, err := memoryOf(s.cmd.Process.Pid)
		if err != nil {
			return err
		}
		seconds := time.Since(began).Seconds()
		what := ", over " + b.idle.String()
		b.report.add("idle", "CPU"+what, 100*(after.cpu-before.cpu).Seconds()/seconds, "% of a core", nil)
		b.report.add("idle", "written to disk"+what, float64(after.written-before.written)/seconds, "B/s", atMost(50))
		b.report.add("idle", "voluntary context switches"+what, float64(after.switches-before.switches)/seconds, "/s", nil)
		b.report.add("idle", "RssAnon after "+b.idle.String(), float64(m.anon)/megabyte, "MiB", atMost(130))
		return nil
	})
}
