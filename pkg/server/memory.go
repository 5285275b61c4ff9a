package server

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// freeEvery is how often memory that nothing uses is given back.
	freeEvery = 2 * time.Minute
	// worthFreeing is from how many bytes on that is worth a collection of garbage.
	worthFreeing = 16 << 20
)

// afterReady is when, after the server has become ready, its start's garbage is given
// back: the API server goes on building its OpenAPI documents for some seconds.
var afterReady = []time.Duration{0, 5 * time.Second, 15 * time.Second, time.Minute}

// keepSmall gives memory back to the system until ctx ends. Go keeps as much again as
// is in use, for the next burst, for a long time; on a small device other processes
// have better use for it, and an idle server has no bursts.
func keepSmall(ctx context.Context) {
	began := time.Now()
	for _, d := range afterReady {
		if !sleep(ctx, d-time.Since(began)) {
			return
		}
		debug.FreeOSMemory()
	}
	for sleep(ctx, freeEvery) {
		if unused() > worthFreeing {
			debug.FreeOSMemory()
		}
	}
}

// unused returns how many bytes the process holds and nothing uses.
func unused() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}}
	metrics.Read(s)
	var sum uint64
	for _, v := range s {
		if v.Value.Kind() == metrics.KindUint64 {
			sum += v.Value.Uint64()
		}
	}
	return sum
}

// sleep returns false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
