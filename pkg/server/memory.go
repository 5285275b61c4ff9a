package server

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// lookEvery is how often the server looks for memory that it can return.
	lookEvery = 10 * time.Second
	// worthFreeing is how many bytes make a garbage collection worth it.
	worthFreeing = 12 << 20
	// quiet is how many bytes an unused server allocates in lookEvery at most. A busy
	// server would soon need the returned memory again.
	quiet = 16 << 20
	// ebb divides a busy server's highest rate of allocation: below that rate its burst is
	// over, and the memory that only the burst needed is returned.
	ebb = 4
	// latest is after how long a server that stays busy returns memory.
	latest = 2 * time.Minute
)

// keepSmall returns memory to the system until ctx ends. For the next burst, Go keeps as much
// again as is in use, and for a long time; on a small device other processes need it.
func keepSmall(ctx context.Context) {
	var t tide
	wait.UntilWithContext(ctx, func(context.Context) {
		if t.out(readMemory(), time.Now()) {
			debug.FreeOSMemory()
			trim()
		}
	}, lookEvery)
}

// tide follows the rate of allocation.
type tide struct {
	before  uint64    // bytes allocated until the last look
	highest uint64    // bytes allocated in one interval, at most, since memory was given back
	freed   time.Time // when it was
}

// out takes the memory in use, every lookEvery, and returns true when unused memory should be returned.
func (t *tide) out(m memory, now time.Time) bool {
	recently := m.allocated - t.before
	t.before = m.allocated
	t.highest = max(t.highest, recently)
	over := recently < quiet || recently < t.highest/ebb
	// The last collection may have been in the middle of a burst: what that one found in use need not be any more.
	burst := t.highest >= quiet
	worth := m.unused > worthFreeing
	out := over && (burst || worth) || worth && now.Sub(t.freed) > latest
	if out {
		t.freed, t.highest = now, recently
	}
	return out
}

type memory struct {
	allocated uint64 // bytes, since the process began
	unused    uint64 // bytes that a collection of garbage could give back
}

func readMemory() memory {
	s := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/gc/heap/live:bytes"}, // of the last collection
	}
	metrics.Read(s)
	m := memory{allocated: s[0].Value.Uint64(), unused: s[1].Value.Uint64()}
	if objects, live := s[2].Value.Uint64(), s[3].Value.Uint64(); objects > live {
		m.unused += objects - live
	}
	return m
}
