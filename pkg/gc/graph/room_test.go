package graph

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// TestGraphReturnsTheMemoryOfWhatHasGone fills a graph and empties it.
func TestGraphReturnsTheMemoryOfWhatHasGone(t *testing.T) {
	const objects = 50_000
	g, now := New(), time.Now()
	pods := schema.GroupResource{Resource: "pods"}
	g.AddResource(pods, schema.GroupKind{Kind: "Pod"}, now)
	live := func() uint64 {
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	record := func(i int) *Record {
		return &Record{
			Namespace: "ns", Name: fmt.Sprint("pod-", i), UID: types.UID(fmt.Sprint("pod-", i)),
			References: []Reference{{APIVersion: "v1", Kind: "Pod", Name: "owner", UID: types.UID(fmt.Sprint("owner-", i))}},
		}
	}
	empty := live()
	for i := range objects {
		g.Upsert(pods, record(i), now)
	}
	full := live()
	for i := range objects {
		g.Deleted(pods, record(i), now)
		if left := objects - 1 - i; left == 5 || left == objects/2 {
			if err := g.Check(); err != nil || g.Count(pods) != left {
				t.Fatalf("%d objects are counted, %d are left: %v", g.Count(pods), left, err)
			}
		}
	}
	// Where the maps stay as they were, they are a sixth of it.
	if after := live(); after-min(after, empty) > (full-empty)/50 {
		t.Errorf("%d bytes are kept of the %d that the objects took", after-empty, full-empty)
	}
	runtime.KeepAlive(g)
}
