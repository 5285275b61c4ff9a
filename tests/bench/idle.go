package main

import "context"

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
		used, err := s.during(ctx, b.idle)
		if err != nil {
			return err
		}
		m, err := memoryOf(s.cmd.Process.Pid)
		if err != nil {
			return err
		}
		seconds := b.idle.Seconds()
		what := ", over " + b.idle.String()
		b.report.add("idle", "CPU"+what, 100*used.cpu.Seconds()/seconds, "% of a core", nil)
		b.report.add("idle", "written to disk"+what, float64(used.written)/seconds, "B/s", atMost(50))
		b.report.add("idle", "voluntary context switches"+what, float64(used.switches)/seconds, "/s", nil)
		b.report.add("idle", "RssAnon after "+b.idle.String(), float64(m.anon)/megabyte, "MiB", atMost(130))
		return nil
	})
}
