package observe

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// State is how far a monitor is.
type State string

const (
	// Synced: the whole first list is in the graph, and changes are watched.
	Synced State = "synced"
	// Syncing: the first list is being read.
	Syncing State = "syncing"
	// Failing: the resource cannot be listed or watched; it is tried again.
	Failing State = "failing"
	// Draining: the resource is not served any more; the last events are taken in.
	Draining State = "draining"
)

// MonitorStates lists every State.
func MonitorStates() []State { return []State{Synced, Syncing, Failing, Draining} }

// MonitorState is what there is to say about the monitor of one resource.
type MonitorState struct {
	Resource schema.GroupVersionResource
	State    State
	// Err is why a failing resource could last not be listed or watched, and Since
	// when that began.
	Err   error
	Since time.Time
}

func (m *monitor) state() MonitorState {
	s := MonitorState{Resource: m.gvr, State: Syncing}
	if since, err := m.health.failing(); err != nil {
		s.State, s.Err, s.Since = Failing, err, since
	} else if m.listed.Load() {
		s.State = Synced
	}
	return s
}

// States returns the state of every monitor, in the order of their resources' names.
// There is one to a resource at the most.
func (o *Observer) States() []MonitorState {
	o.mu.Lock()
	all := make([]MonitorState, 0, len(o.monitors)+len(o.draining))
	for _, m := range o.monitors {
		all = append(all, m.state())
	}
	for _, m := range o.draining {
		all = append(all, MonitorState{Resource: m.gvr, State: Draining})
	}
	o.mu.Unlock()
	slices.SortFunc(all, func(a, b MonitorState) int {
		return cmp.Or(cmp.Compare(a.Resource.Group, b.Resource.Group), cmp.Compare(a.Resource.Resource, b.Resource.Resource))
	})
	return all
}

// Monitors counts monitors by state.
type Monitors struct {
	Synced, Syncing, Failing, Draining int
}

// Monitors returns the current counts.
func (o *Observer) Monitors() Monitors {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := Monitors{Draining: len(o.draining)}
	for _, m := range o.monitors {
		switch m.state().State {
		case Failing:
			c.Failing++
		case Synced:
			c.Synced++
		default:
			c.Syncing++
		}
	}
	return c
}

// Undiscovered returns the API groups that discovery last failed for, in whole or in part.
func (o *Observer) Undiscovered() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var groups []string
	for _, gv := range o.failed {
		groups = append(groups, gv.Group)
	}
	return slices.Compact(groups) // they are sorted
}
