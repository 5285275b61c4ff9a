// Package pause keeps the collector's pause. While it is on, the collector reads and
// watches and writes nothing.
//
// The pause is a ConfigMap, so that it outlives every process, works on any cluster,
// is guarded by its RBAC and can be seen with kubectl. It remembers pauses that have
// ended too: the time that they took counts towards no deadline, not even after the
// collector was started again.
package pause

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/util/retry"
)

// Namespace and Name say where the ConfigMap is.
const (
	Namespace = metav1.NamespaceSystem
	Name      = "reap-gc"
)

// The keys of its data.
const (
	keyPaused = "paused" // true or false
	keySince  = "since"  // when the pause began, RFC 3339
	keyBy     = "by"     // who paused
	keyReason = "reason" // why, in the user's words
	keyHeld   = "held"   // true if the controllers that delete are held too
	keyPast   = "past"   // the pauses before, one a line: from/to
)

// pastKept is how many pauses are remembered one by one. Older ones count as one
// that spans them, which makes deadlines later, never earlier.
const pastKept = 50

// State is whether the collector is paused, and when it was.
type State struct {
	Paused bool `json:"paused"`
	// Since is when the pause began; the zero time if it is not paused or nobody knows.
	Since time.Time `json:"since,omitzero"`
	// By and Reason are what was said when it was paused.
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Held is true while a reap server holds the controllers that delete too, as after a restore.
	Held bool `json:"held,omitempty"`
	// Past are the pauses that have ended, oldest first.
	Past []Interval `json:"-"`
}

// Interval is a time span of the wall clock.
type Interval struct{ From, To time.Time }

// stateOf reads the state from the ConfigMap's data. What cannot be understood counts as
// paused, and err says what it is: the collector does not write on a guess.
func stateOf(data map[string]string) (s State, err error) {
	switch data[keyPaused] {
	case "true":
		s.Paused = true
	case "false", "":
	default:
		s.Paused = true
		err = fmt.Errorf("%s of ConfigMap %s/%s is %q; it has to be true or false", keyPaused, Namespace, Name, data[keyPaused])
	}
	if s.Paused {
		s.By, s.Reason = data[keyBy], data[keyReason]
		s.Held = data[keyHeld] == "true"
		if t, badTime := time.Parse(time.RFC3339, data[keySince]); badTime == nil {
			s.Since = t
		}
	}
	for line := range strings.Lines(data[keyPast]) {
		from, to, _ := strings.Cut(strings.TrimSpace(line), "/")
		f, badFrom := time.Parse(time.RFC3339, from)
		t, badTo := time.Parse(time.RFC3339, to)
		if badFrom == nil && badTo == nil && t.After(f) {
			s.Past = append(s.Past, Interval{f, t})
		}
	}
	return s, err
}

// data is what stateOf reads.
func (s State) data() map[string]string {
	d := map[string]string{keyPaused: fmt.Sprint(s.Paused)}
	if s.Paused {
		d[keySince] = s.Since.UTC().Format(time.RFC3339)
		d[keyBy] = s.By
		d[keyReason] = s.Reason
		if s.Held {
			d[keyHeld] = "true"
		}
	}
	var past strings.Builder
	for _, i := range s.Past {
		fmt.Fprintf(&past, "%s/%s\n", i.From.UTC().Format(time.RFC3339), i.To.UTC().Format(time.RFC3339))
	}
	if past.Len() > 0 {
		d[keyPast] = past.String()
	}
	return d
}

// begin is the state of a pause that begins.
func (s State) begin(by, reason string, now time.Time) State {
	return State{Paused: true, Since: now, By: by, Reason: reason, Past: s.Past}
}

// end is the state after the pause.
func (s State) end(now time.Time) State {
	past := s.Past
	// The ConfigMap holds whole seconds: what was begun counts as paused.
	now = now.Truncate(time.Second).Add(time.Second)
	if !s.Since.IsZero() && now.After(s.Since) {
		past = append(past, Interval{s.Since, now})
	}
	if n := len(past) - pastKept; n > 0 {
		past = append([]Interval{{past[0].From, past[n].To}}, past[n+1:]...)
	}
	return State{Past: past}
}

// Begin pauses the collector. changed is false if it was paused already; then who
// paused and why stay as they are, and the state says so.
func Begin(ctx context.Context, client typedcorev1.ConfigMapsGetter, by, reason string, now time.Time) (s State, changed bool, err error) {
	paused := func(s State) bool { return s.Paused }
	return change(ctx, client, paused, func(s State) State { return s.begin(by, reason, now) })
}

// Explain gives a pause that lasts another reason, and who gave it. Everything else of it stays. changed is false if it has
// that reason already, or if the collector is not paused.
func Explain(ctx context.Context, client typedcorev1.ConfigMapsGetter, by, reason string) (s State, changed bool, err error) {
	said := func(s State) bool { return !s.Paused || s.Reason == reason }
	return change(ctx, client, said, func(s State) State {
		s.By, s.Reason = by, reason
		return s
	})
}

// Find returns the state.
func Find(ctx context.Context, client typedcorev1.ConfigMapsGetter) (State, error) {
	m, err := client.ConfigMaps(Namespace).Get(ctx, Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return State{}, nil
	}
	if err != nil {
		return State{}, fmt.Errorf("reading the pause: %w", err)
	}
	s, _ := stateOf(m.Data) // what cannot be understood counts as paused
	return s, nil
}

// Hold pauses the collector and the controllers that delete. changed is false if they were held already. An existing pause
// becomes a hold; the state then says who holds and why.
func Hold(ctx context.Context, client typedcorev1.ConfigMapsGetter, by, reason string, now time.Time) (s State, changed bool, err error) {
	held := func(s State) bool { return s.Held }
	return change(ctx, client, held, func(s State) State {
		if s.Paused && !s.Since.IsZero() {
			now = s.Since
		}
		s = s.begin(by, reason, now)
		s.Held = true
		return s
	})
}

// End lets the collector go on. changed is false if it was not paused; the state is
// that of the pause that has ended.
func End(ctx context.Context, client typedcorev1.ConfigMapsGetter, now time.Time) (s State, changed bool, err error) {
	_, err = client.ConfigMaps(Namespace).Get(ctx, Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return State{}, false, nil
	}
	if err != nil {
		return State{}, false, fmt.Errorf("reading the pause: %w", err)
	}
	var before State
	ended := func(s State) bool { return !s.Paused }
	_, changed, err = change(ctx, client, ended, func(s State) State {
		before = s
		return s.end(now)
	})
	return before, changed, err
}

// change writes the state that next returns, unless the state already is as wanted. A
// concurrent write by somebody else is not overwritten.
func change(ctx context.Context, client typedcorev1.ConfigMapsGetter, wanted func(State) bool, next func(State) State) (s State, changed bool, err error) {
	maps := client.ConfigMaps(Namespace)
	err = retry.OnError(retry.DefaultBackoff, func(err error) bool {
		return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)
	}, func() error {
		m, err := maps.Get(ctx, Name, metav1.GetOptions{})
		absent := apierrors.IsNotFound(err)
		if err != nil && !absent {
			return err
		}
		if absent {
			m = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: Name}}
		}
		var unclear error
		s, unclear = stateOf(m.Data)
		if changed = !wanted(s) || unclear != nil; !changed {
			return nil
		}
		s = next(s)
		m.Data = s.data()
		if absent {
			_, err = maps.Create(ctx, m, metav1.CreateOptions{})
		} else {
			_, err = maps.Update(ctx, m, metav1.UpdateOptions{})
		}
		return err
	})
	if err != nil {
		return State{}, false, fmt.Errorf("writing the pause: %w", err)
	}
	return s, changed, nil
}
