package histories

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/reap-dev/reap/tests/size"
)

// slowWatch is a direct watch that reads nothing until so much was written that its stream, and what the server keeps for it, are full.
type slowWatch struct {
	*watcher
	others *watcher // of the same server; it goes on meanwhile
	// missed is how many changes the other watch has shown until this one reads.
	missed int64
}

// changesToMiss is how many changes of twice valueSize bytes a slow watch does not read: more than the server sends to it.
func changesToMiss() int64 { return size.Of[int64](40, 150, 1500) }

// watchSlowly begins a slow watch of a server. It reads in any case once nobody writes any more.
func (h *history) watchSlowly(ctx context.Context, server int, begin int64, ended chan struct{}) {
	s := &slowWatch{
		watcher: &watcher{name: fmt.Sprintf("slow watch of server %d", server), from: begin + 1, key: every, direct: h.direct(server)},
		others:  h.watchers[server],
	}
	s.direct.hold = func(ctx context.Context) {
		from := s.others.seen.Load()
		// When nobody writes any more the other watch may still be behind, but for a second at most nothing comes then.
		for still := 0; s.missed < changesToMiss() && still < 200 && wait(ctx, 5*time.Millisecond); still++ {
			missed := s.others.seen.Load() - from
			if !closed(ended) || missed > s.missed {
				still = 0
			}
			s.missed = missed
		}
	}
	h.slow = append(h.slow, s)
	h.watch(ctx, server, s.watcher)
}

// check returns an error if the watch was not as slow as it should have been, unless the other one was refused meanwhile. What it has
// shown is checked as with all watches.
func (s *slowWatch) check() error {
	if s.missed < changesToMiss() && !s.others.compacted {
		return fmt.Errorf("%s has missed only %d changes of %d", s.name, s.missed, changesToMiss())
	}
	return nil
}

// slowly tells what became of slow watches.
func (h *history) slowly() string {
	var each []string
	for _, s := range h.slow {
		what := "whole"
		if s.compacted {
			what = "refused"
		}
		each = append(each, fmt.Sprintf("%s:%d/%d", what, s.seen.Load(), len(s.starts)))
	}
	return strings.Join(each, ",")
}
