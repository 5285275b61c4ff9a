package histories

import (
	"strings"
	"testing"

	"github.com/anishathalye/porcupine"
)

// op is an operation from one time to another.
func op(from, to int64, in asked, out answered) porcupine.Operation {
	return porcupine.Operation{Call: from, Return: to, Input: in, Output: out}
}

// shows is what a list shows if only key 0 is there.
func shows(revision, value int64) (s [keys]entry) {
	s[0] = entry{revision, value}
	return s
}

// TestWrongHistoriesAreFound: what a store must never do is not linearizable.
func TestWrongHistoriesAreFound(t *testing.T) {
	created := op(1, 2, asked{verb: create, value: 7}, answered{done: true, revision: 10})
	for what, c := range map[string]struct {
		all  []porcupine.Operation
		fine bool
	}{
		"a read of what was written":         {[]porcupine.Operation{created, op(3, 4, asked{verb: get}, answered{revision: 10, shown: shows(10, 7)})}, true},
		"a stale read":                       {[]porcupine.Operation{created, op(3, 4, asked{verb: get}, answered{revision: 10})}, false},
		"a read beside a write may be stale": {[]porcupine.Operation{op(1, 9, created.Input.(asked), created.Output.(answered)), op(3, 4, asked{verb: get}, answered{revision: 9})}, true},
		"a read with a revision that is newer than what it shows": {[]porcupine.Operation{
			op(1, 9, created.Input.(asked), created.Output.(answered)), op(3, 4, asked{verb: get}, answered{revision: 10}),
		}, false},
		"a read with a revision before the last write": {[]porcupine.Operation{created, op(3, 4, asked{verb: list}, answered{revision: 9, shown: shows(10, 7)})}, false},
		"two creations":                             {[]porcupine.Operation{created, op(3, 4, asked{verb: create, value: 8}, answered{done: true, revision: 11})}, false},
		"a creation that fails without a reason":    {[]porcupine.Operation{op(1, 2, asked{verb: create, value: 7}, answered{revision: 10})}, false},
		"two updates of one revision":               {[]porcupine.Operation{created, update7(3, 11), update7(5, 12)}, false},
		"a revision that goes back":                 {[]porcupine.Operation{created, update7(3, 9)}, false},
		"an update that fails and shows the reason": {[]porcupine.Operation{created, op(3, 4, asked{verb: update, revision: 5, value: 8}, answered{shown: shows(10, 7)})}, true},
		"an update that fails without a reason":     {[]porcupine.Operation{created, op(3, 4, asked{verb: update, revision: 10, value: 8}, answered{shown: shows(10, 7)})}, false},
		"a removal of nothing":                      {[]porcupine.Operation{created, op(3, 4, asked{verb: remove, revision: 10}, answered{done: true, revision: 11}), op(5, 6, asked{verb: remove, revision: 10}, answered{done: true, revision: 12})}, false},
	} {
		if porcupine.CheckOperations(promises, c.all) != c.fine {
			t.Errorf("%s: linearizable is %t", what, !c.fine)
		}
	}
}

func update7(from, revision int64) porcupine.Operation {
	return op(from, from+1, asked{verb: update, revision: 10, value: from}, answered{done: true, revision: revision})
}

// TestWrongWatchesAreFound: each thing that a watch must not do is said.
func TestWrongWatchesAreFound(t *testing.T) {
	all := []change{
		{10, 0, entry{10, 1}, entry{}}, {11, 1, entry{11, 2}, entry{}}, {12, 0, entry{12, 3}, entry{10, 1}}, {13, 0, entry{}, entry{12, 3}},
	}
	whole := func(from int) []piece { return []piece{{changes: all[from:]}} }
	for what, c := range map[string]struct {
		w    *watcher
		want string
	}{
		"everything":                   {&watcher{from: 10, key: every, pieces: whole(0)}, ""},
		"from the second on":           {&watcher{from: 11, key: every, pieces: whole(1)}, ""},
		"one key":                      {&watcher{from: 11, key: 0, pieces: whole(2)}, ""},
		"one is missing":               {&watcher{from: 10, key: every, pieces: []piece{{changes: all[:2]}, {changes: all[3:]}}}, "should be"},
		"the last is missing":          {&watcher{from: 10, key: every, pieces: []piece{{changes: all[:3]}}}, "3 changes of 4"},
		"one comes twice":              {&watcher{from: 10, key: every, pieces: []piece{{changes: all[:2]}, {changes: all[1:]}}}, "should be"},
		"in another order":             {&watcher{from: 10, key: every, pieces: []piece{{changes: all[1:2]}, {changes: all[:1]}, {changes: all[2:]}}}, "should be"},
		"what was before its time":     {&watcher{from: 11, key: every, pieces: whole(0)}, "should be"},
		"another's key":                {&watcher{from: 10, key: 1, pieces: whole(0)}, "should be"},
		"another value before":         {&watcher{from: 13, key: every, pieces: []piece{{changes: []change{{13, 0, entry{}, entry{10, 1}}}}}}, "should be"},
		"no value before":              {&watcher{from: 13, key: every, pieces: []piece{{changes: []change{{13, 0, entry{}, entry{}}}}}}, "should be"},
		"all is shown, in time":        {&watcher{from: 10, key: every, pieces: []piece{{changes: all[:2]}, {progress: 11}, {changes: all[2:]}, {progress: 20}}}, ""},
		"all is shown, too early":      {&watcher{from: 10, key: every, pieces: []piece{{changes: all[:2]}, {progress: 12}, {changes: all[2:]}}}, "says that all is shown"},
		"refused without a compaction": {&watcher{from: 12, key: every, compacted: true}, "only 11 was compacted"},
		"refused":                      {&watcher{from: 11, key: every, compacted: true}, ""},
		"refused where it goes on":     {&watcher{from: 10, key: every, pieces: []piece{{changes: all[:1]}}, compacted: true}, ""},
		"refused after a repetition":   {&watcher{from: 10, key: every, pieces: []piece{{changes: all[:1]}, {changes: all[:1]}}, compacted: true}, "should not be there"},
		"refused where it need not go": {&watcher{from: 10, key: every, pieces: []piece{{changes: all[:2]}}, compacted: true}, "only 11 was compacted"},
		"one too many":                 {&watcher{from: 10, key: every, pieces: []piece{{changes: all}, {changes: all[3:]}}}, "should not be there"},
	} {
		_, err := c.w.check(all, 11, nil)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestSharedWatchMayBeRefusedFarBehind: but no other, and not a little less far.
func TestSharedWatchMayBeRefusedFarBehind(t *testing.T) {
	const last = 10 + furthestBehind
	all := []change{{10, 0, entry{10, 1}, entry{}}, {last, 0, entry{last, 2}, entry{10, 1}}}
	for from, writes := range map[int64]flights{9: {}, 10: {}, 8: nil} {
		w := &watcher{from: from, key: every, compacted: true}
		if _, err := w.check(all, 0, writes); (err == nil) != (from == 9) {
			t.Errorf("from %d: %v", from, err)
		}
	}
}

// TestWrongChangesAreFound: changes that are nobody's, and acknowledged writes that are no change.
func TestWrongChangesAreFound(t *testing.T) {
	created := op(1, 2, asked{verb: create, value: 7}, answered{done: true, revision: 10})
	removed := op(3, 4, asked{verb: remove, revision: 10}, answered{done: true, revision: 12})
	first, second := change{10, 0, entry{10, 7}, entry{}}, change{12, 0, entry{}, entry{10, 7}}
	created2 := change{13, 0, entry{13, 7}, entry{}}
	for what, c := range map[string]struct {
		all  []change
		want string
	}{
		"as it was":            {[]change{first, second}, ""},
		"one lost":             {[]change{first}, "no watch shows it"},
		"another revision":     {[]change{first, {11, 0, entry{}, entry{10, 7}}}, "nobody removed"},
		"back in time":         {[]change{first, second, {9, 1, entry{9, 7}, entry{}}}, "comes after"},
		"nobody's":             {[]change{first, second, {13, 1, entry{13, 99}, entry{}}}, "nobody wrote"},
		"another one before":   {[]change{first, {12, 0, entry{}, entry{11, 8}}}, "the key was"},
		"a removal of nothing": {[]change{first, second, {13, 1, entry{}, entry{}}}, "nobody removed"},
		"nobody's removal":     {[]change{first, second, created2, {14, 0, entry{}, entry{13, 7}}}, "nobody removed"},
		"no value before":      {[]change{first, {12, 0, entry{}, entry{}}}, "the key was"},
	} {
		err := checkChanges(c.all, &record{all: []porcupine.Operation{created, removed}})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestLostWritesAreFoundByTheirChanges: a write without an answer took effect if there is its change, and nobody else's.
func TestLostWritesAreFoundByTheirChanges(t *testing.T) {
	created := op(1, 2, asked{verb: create, value: 7}, answered{done: true, revision: 10})
	changes := []change{{10, 0, entry{10, 7}, entry{}}, {12, 0, entry{}, entry{10, 7}}}
	lost := []porcupine.Operation{op(3, 4, asked{verb: update, revision: 10, value: 8}, answered{}), op(3, 4, asked{verb: remove, revision: 10}, answered{})}
	all := (&record{all: []porcupine.Operation{created}, lost: lost}).whole(changes)
	if len(all) != 2 || all[1].Input != lost[1].Input || all[1].Return != never || all[1].Output.(answered).revision != 12 {
		t.Errorf("the history is %+v", all)
	}
	twice := append(lost, op(2, 9, asked{verb: remove, revision: 10}, answered{}))
	if all := (&record{all: []porcupine.Operation{created}, lost: twice}).whole(changes); len(all) != 2 || all[1].Call != 2 {
		t.Errorf("one removal that two have asked for: the history is %+v", all)
	}
	told := op(3, 4, asked{verb: remove, revision: 10}, answered{done: true, revision: 12})
	if all := (&record{all: []porcupine.Operation{created, told}, lost: lost}).whole(changes); len(all) != 2 {
		t.Errorf("the history is %+v", all)
	}
}
