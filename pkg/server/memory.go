package server

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// lookEvery is how often memory that could be given back is looked for.
	lookEvery = 10 * time.Second
	// worthFreeing is from how many bytes on that is worth a collection of garbage.
	worthFreeing = 12 << 20
	// quiet is how many bytes are allocated in lookEvery, at the most, by a server
	// that nobody uses. Others soon need again what they could give back.
	quiet = 16 << 20
	// ebb is the part of its highest rate of allocation to which a busy server has to
	// come down for its burst to be over. What only the burst needed is given back then.
	ebb = 4
	// latest is after how long memory is given back by a server that stays busy.
	latest = 2 * time.Minute
)

// keepSmall gives memory back to the system until ctx ends. Go keeps as much again as
// is in use, for the next burst, for a long time; on a small device other processes
// have better use for it.
func keepSmall(ctx context.Context) {
	var t tide
	wait.UntilWithContext(ctx, func(context.Context) {
		if t.out(readMemory(), time.Now()) {
			debug.FreeOSMemory()
			trim()
		}
	}, lookEvery)
}

// tide follows how much is allocated.
type tide struct {
	before  uint64    // bytes allocated until the last look
	highest uint64    // bytes allocated in one interval, at most, since memory was given back
	freed   time.Time // when it was
}

// out is told of the memory in use every lookEvery, and says when to give back what is not needed.
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
