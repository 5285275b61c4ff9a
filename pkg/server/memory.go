package server

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// lookEvery is how often the server checks for memory that it can return.
	lookEvery = 10 * time.Second
	// worthFreeing is how many bytes make a garbage collection worth it.
	worthFreeing = 12 << 20
	// quiet is how many bytes an unused server allocates in lookEvery at most. A busy
	// server would soon need the returned memory again.
	quiet = 16 << 20
	// ebb divides a busy server's highest rate of allocation: below that rate its burst is
	// over, and the memory that only the burst needed is returned.
	ebb = 4
	// latest is the interval at which a server that stays busy returns memory.
	latest = 2 * time.Minute
	// startPercent is GOGC until the server is ready.
	startPercent = 50
)

// startSmall has garbage collected more often until the returned function is called, unless the user has set GOGC. Most of
// the memory that a start allocates is soon unused, but lies between objects that stay: what they leave unused of their
// pages is never returned. So fewer pages should be in use at once.
func startSmall() (started func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	before := debug.SetGCPercent(startPercent)
	return func() { debug.SetGCPercent(before) }
}

// KeepSmall returns memory to the system until ctx is cancelled. Go would keep about as much
// unused memory as is in use, and for a long time; on a small device other processes need it.
func KeepSmall(ctx context.Context) {
	var t tide
	wait.UntilWithContext(ctx, func(context.Context) {
		out := t.out(readMemory(), time.Now())
		if out {
			debug.FreeOSMemory()
		}
		if out || t.idle { // also later, since SQLite's connections are closed some time after their last use
			trim()
		}
	}, lookEvery)
}

// tide tracks the rate of allocation.
type tide struct {
	before  uint64    // total bytes allocated at the last look
	highest uint64    // most bytes allocated in one interval since memory was last returned
	freed   time.Time // when memory was last returned
	idle    bool      // nobody used the server in the last interval
}

// out is called every lookEvery, and reports whether unused memory should be returned now.
func (t *tide) out(m memory, now time.Time) bool {
	recently := m.allocated - t.before
	t.before = m.allocated
	t.highest = max(t.highest, recently)
	t.idle = recently < quiet
	over := t.idle || recently < t.highest/ebb
	// The last garbage collection may have run in the middle of a burst, and objects that it found in use may be unused now.
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
	unused    uint64 // bytes that a garbage collection could free
}

func readMemory() memory {
	s := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/gc/heap/live:bytes"}, // at the last garbage collection
	}
	metrics.Read(s)
	m := memory{allocated: s[0].Value.Uint64(), unused: s[1].Value.Uint64()}
	if objects, live := s[2].Value.Uint64(), s[3].Value.Uint64(); objects > live {
		m.unused += objects - live
	}
	return m
}
