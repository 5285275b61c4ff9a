package histories

import (
	"fmt"
	"math"
	"strings"

	"github.com/anishathalye/porcupine"
)

// keys is how many keys a history has: few, so that writers meet.
const keys = 4

const prefix = "/registry/histories/"

func keyName(k int) string { return fmt.Sprintf("%s%d", prefix, k) }

// valueSize is how long a value is stored: a few hundred changes fill what a watch that nobody reads has between it and the store.
const valueSize = 2048

func valueText(v int64) string { return fmt.Sprintf("%0*d", valueSize, v) }

// verb is what a client asks for.
type verb int

const (
	get    verb = iota // one key
	list               // all keys
	create             // if it is absent
	update             // if it was last changed at a revision
	remove             // the same
)

func (v verb) String() string { return [...]string{"get", "list", "create", "update", "remove"}[v] }

func (v verb) writes() bool { return v >= create }

// entry is a key's value and the revision of its last change; both are 0 for a key that is absent. Every value is written
// once.
type entry struct{ revision, value int64 }

// asked is the input of an operation.
type asked struct {
	verb verb
	key  int
	// revision is what an update or removal compares with.
	revision int64
	value    int64 // of a write
}

// answered is its output.
type answered struct {
	// done is true if a write took effect.
	done bool
	// revision is that of the answer: for a write that of the change, for a read one at which the store was as the answer shows it.
	revision int64
	// shown is what a read shows of each key that it asks for, and what an update or removal found instead.
	shown [keys]entry
}

// state is a store. It is compared with ==.
type state struct {
	// last is the revision of the last write, seen the latest that a read was answered with.
	last, seen int64
	entries    [keys]entry
	// changed is the revision of each key's last change, removals too. It is kept if revisions may be given before the commit.
	changed [keys]int64
}

// promises is etcd's behaviour towards clients that compare before they write.
var promises = modelOf(false)

// promisesOfSQL is that of PostgreSQL, which gives a write its revision before it is committed: only the revisions of one key are in the
// order of its writes, and a read's is the newest of all that are committed. checkOrder and reading.check say what else has to be so.
var promisesOfSQL = modelOf(true)

func modelOf(early bool) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return state{} },
		Step: func(s, in, out any) (bool, any) {
			return step(s.(state), in.(asked), out.(answered), early)
		},
		DescribeOperation: func(in, out any) string { return fmt.Sprintf("%s: %s", in.(asked), out.(answered)) },
	}
}

// step returns whether a store may answer so, and what it is afterwards. A store may write keys of its own, so that revisions
// have gaps. Revisions may be given before the commit if early is true.
func step(s state, in asked, out answered, early bool) (bool, state) {
	now := s.entries[in.key]
	switch {
	case in.verb == get || in.verb == list:
		for k := range keys {
			if (in.verb == list || k == in.key) && out.shown[k] != s.entries[k] {
				return false, s
			}
		}
		// A cache is as new as the store once it has come to this revision; and a watch from it misses nothing.
		if out.revision < s.last {
			return false, s
		}
		if !early {
			s.seen = max(s.seen, out.revision)
		}
		return true, s
	case !out.done:
		fits := now.revision == in.revision // 0: absent
		return !fits && (in.verb == create || out.shown[in.key] == now), s
	}
	inOrder := out.revision > s.last && out.revision > s.seen
	if early {
		inOrder = out.revision > s.changed[in.key]
		s.changed[in.key] = out.revision
	}
	if now.revision != in.revision || !inOrder {
		return false, s
	}
	s.last, s.entries[in.key] = max(s.last, out.revision), entry{}
	if in.verb != remove {
		s.entries[in.key] = entry{out.revision, in.value}
	}
	return true, s
}

func (a asked) String() string {
	switch a.verb {
	case list:
		return "list"
	case get:
		return fmt.Sprintf("get %d", a.key)
	}
	return fmt.Sprintf("%s %d, value %d, at %d", a.verb, a.key, a.value, a.revision)
}

func (a answered) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "revision %d", a.revision)
	if a.done {
		b.WriteString(", done")
	}
	for k, e := range a.shown {
		if e != (entry{}) {
			fmt.Fprintf(&b, ", %d has %d of revision %d", k, e.value, e.revision)
		}
	}
	return b.String()
}

// never is when an operation without an answer returns.
const never = math.MaxInt64
