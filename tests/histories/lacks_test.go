package histories

import "fmt"

// lacks counts what was not shown although it has an earlier revision, as it was not committed yet (kine#676).
type lacks struct {
	reads   int // that lacked a change
	watches int // that lacked one of after their beginning, for ever
	changes map[int64]bool
	// caches are lists that lacked a change, with the watch from there, which never shows it.
	caches int
}

func (l *lacks) read(lacking []change) {
	if len(lacking) > 0 {
		l.reads++
	}
	l.note(lacking)
}

func (l *lacks) watch(lacking []change) {
	if len(lacking) > 0 {
		l.watches++
	}
	l.note(lacking)
}

// cache counts a list if a watch that was begun where it ends does not show what it lacks.
func (l *lacks) cache(lacking []change, w *watcher) {
	for _, p := range w.pieces {
		for _, c := range p.changes {
			for _, missing := range lacking {
				if c.revision == missing.revision {
					return
				}
			}
		}
	}
	if len(lacking) > 0 {
		l.caches++
	}
}

func (l *lacks) note(lacking []change) {
	if l.changes == nil {
		l.changes = map[int64]bool{}
	}
	for _, c := range lacking {
		l.changes[c.revision] = true
	}
}

func (l lacks) String() string {
	if len(l.changes) == 0 {
		return ""
	}
	return fmt.Sprintf(" lacked=%d reads-that-lack=%d watches-that-lack=%d caches-that-lack=%d", len(l.changes), l.reads, l.watches, l.caches)
}
