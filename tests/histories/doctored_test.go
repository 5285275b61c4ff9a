package histories

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/anishathalye/porcupine"
)

// Three keys and five changes of them; that of revision 12 was asked for from 30 to 60.
var (
	recorded = []change{
		{10, 0, entry{10, 1}, entry{}}, {11, 1, entry{11, 2}, entry{}}, {12, 0, entry{12, 3}, entry{10, 1}}, {14, 2, entry{14, 4}, entry{}},
		{16, 1, entry{}, entry{11, 2}},
	}
	late = flights{10: {1, 2}, 11: {3, 4}, 12: {30, 60}, 14: {40, 45}, 16: {50, 52}}
)

// a reading of everything at revision 14, from 47 to 48.
func at14(doctor func(*reading)) reading {
	r := reading{called: 47, returned: 48, revision: 14, end: keys, keys: []int{0, 1, 2}, count: 3}
	r.entries = stateAt(recorded, 14)
	doctor(&r)
	return r
}

// lacking has a reading show less than there is.
func lacking(r *reading, key int, instead entry) {
	r.entries[key] = instead
	if instead == (entry{}) {
		r.keys = slices.DeleteFunc(r.keys, func(k int) bool { return k == key })
		r.count--
	}
}

// TestWrongReadsAreFound: lists, pages and counts that a store must not answer.
func TestWrongReadsAreFound(t *testing.T) {
	page := func(r *reading) {
		r.limit, r.more, r.keys, r.entries[1], r.entries[2] = 1, true, []int{0}, entry{}, entry{}
	}
	for what, c := range map[string]struct {
		doctor func(*reading)
		want   string
	}{
		"as it was":               {func(*reading) {}, ""},
		"at an old revision":      {func(r *reading) { r.asked, r.revision = 14, 16 }, ""},
		"a count":                 {func(r *reading) { r.counts, r.keys, r.entries = true, nil, [keys]entry{} }, ""},
		"a wrong count":           {func(r *reading) { r.counts, r.count = true, 2 }, "the count should be 3"},
		"a page":                  {page, ""},
		"the last page":           {func(r *reading) { r.first, r.limit, r.count, r.keys, r.entries[0] = 1, 2, 2, []int{1, 2}, entry{} }, ""},
		"a page without an end":   {func(r *reading) { page(r); r.limit = 2 }, "the limit is not reached"},
		"a page that is no last":  {func(r *reading) { page(r); r.more = false }, "the count does not fit"},
		"a page that counts less": {func(r *reading) { page(r); r.count = 2 }, "the count should be 3"},
		"a page that skips a key": {func(r *reading) { page(r); r.keys, r.entries[0], r.entries[1] = []int{1}, entry{}, entry{11, 2} }, "key 0 should be"},
		"a page that is too long": {func(r *reading) { r.limit = 2 }, "the limit is exceeded"},
		"another order":           {func(r *reading) { r.keys = []int{1, 0, 2} }, "in no order"},
		"a key of before":         {func(r *reading) { r.first, r.count = 1, 2 }, "in no order"},
		"a key too few":           {func(r *reading) { lacking(r, 2, entry{}) }, "should be"},
		"a key of a later time":   {func(r *reading) { r.asked, r.revision = 11, 16 }, "should be"},
		"an old value":            {func(r *reading) { r.entries[0] = entry{10, 1} }, "key 0 should be"},
		"of the future":           {func(r *reading) { r.asked = 15 }, "before the one asked for"},
	} {
		if lacks, err := at14(c.doctor).check(recorded, nil); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || len(lacks) > 0 {
			t.Errorf("%s: %v, lacks %v", what, err, lacks)
		}
	}
}

// TestOnlyUncommittedWritesMayBeMissing: kine#676 is told from every other list that lacks something.
func TestOnlyUncommittedWritesMayBeMissing(t *testing.T) {
	old := func(r *reading) { lacking(r, 0, entry{10, 1}) }
	for what, c := range map[string]struct {
		doctor func(*reading)
		lacks  int
		fine   bool
	}{
		"as it was":              {func(*reading) {}, 0, true},
		"what was not committed": {old, 1, true},
		"of a list that was asked for afterwards": {func(r *reading) { old(r); r.called, r.returned = 61, 62 }, 0, false},
		"of a list that was answered before":      {func(r *reading) { old(r); r.called, r.returned = 20, 29 }, 0, false},
		"what gives the list its revision":        {func(r *reading) { old(r); r.revision = 12; lacking(r, 2, entry{}) }, 0, false},
		"of a list of old":                        {func(r *reading) { old(r); r.asked, r.revision = 14, 16 }, 1, true},
		"what was committed":                      {func(r *reading) { lacking(r, 1, entry{}) }, 0, false},
		"what was committed before that":          {func(r *reading) { lacking(r, 0, entry{}) }, 0, false},
		"a value that never was":                  {func(r *reading) { lacking(r, 0, entry{9, 9}) }, 0, false},
		"a count that lacks more":                 {func(r *reading) { old(r); r.count = 1 }, 0, false},
	} {
		lacks, err := at14(c.doctor).check(recorded, late)
		if (err == nil) != c.fine || len(lacks) != c.lacks {
			t.Errorf("%s: %v, lacks %v", what, err, lacks)
		}
	}
}

// TestWatchesMayLackOnlyWhatWasNotCommitted: the same for watches.
func TestWatchesMayLackOnlyWhatWasNotCommitted(t *testing.T) {
	without := func(revision int64) []piece {
		return []piece{{changes: slices.DeleteFunc(slices.Clone(recorded), func(c change) bool { return c.revision == revision })}, {progress: 16}}
	}
	begun := func(from, called, created, revision int64) []start { return []start{{from, called, created, revision}} }
	for what, c := range map[string]struct {
		starts  []start
		missing int64
		fine    bool
	}{
		"it began meanwhile":                 {begun(10, 46, 47, 14), 12, true},
		"it began before":                    {begun(10, 5, 6, 11), 12, false},
		"it began afterwards":                {begun(10, 61, 62, 16), 12, false},
		"the store had no later one":         {begun(10, 46, 47, 12), 12, false},
		"another is missing":                 {begun(10, 46, 47, 14), 11, false},
		"it began again meanwhile":           {append(begun(10, 5, 6, 11), start{12, 46, 47, 14}), 12, true},
		"it began again, and had to show it": {append(begun(10, 5, 6, 11), start{14, 46, 47, 14}), 12, false},
	} {
		w := &watcher{from: 10, key: every, starts: c.starts, pieces: without(c.missing)}
		lacks, err := w.check(recorded, 0, late)
		if (err == nil) != c.fine || c.fine && (len(lacks) != 1 || lacks[0].revision != c.missing) {
			t.Errorf("%s: %v, lacks %v", what, err, lacks)
		}
		if _, err := w.check(recorded, 0, nil); err == nil {
			t.Errorf("%s: it passes with a store that commits in order", what)
		}
	}
	// A promise counts what is missing as shown, and nothing else.
	w := &watcher{from: 10, key: every, starts: begun(10, 46, 47, 14), pieces: []piece{{changes: recorded[:2]}, {progress: 14}, {changes: recorded[3:]}}}
	if _, err := w.check(recorded, 0, late); err == nil || !strings.Contains(err.Error(), "says that all is shown") {
		t.Errorf("a promise that is not kept: %v", err)
	}
}

// TestFlightsEndWithTheFirstReadThatShowsThem: what one has seen nobody may lack later.
func TestFlightsEndWithTheFirstReadThatShowsThem(t *testing.T) {
	all := []porcupine.Operation{op(30, 60, asked{verb: create, value: 7}, answered{done: true, revision: 12})}
	seen := reading{called: 40, returned: 50, end: keys, entries: shows(12, 7)}
	if f := flightsOf(all, nil); !f.early(12, 14, 55, 56) {
		t.Errorf("the flights are %v", f)
	}
	if f := flightsOf(all, []reading{seen}); f.early(12, 14, 55, 56) || !f.early(12, 14, 45, 46) {
		t.Errorf("the flights are %v", f)
	}
}

// TestOrderOfRevisions: they follow the order of time, also where they do not follow the order of commits.
func TestOrderOfRevisions(t *testing.T) {
	write := func(from, to, revision int64) porcupine.Operation {
		return op(from, to, asked{verb: create}, answered{done: true, revision: revision})
	}
	read := func(from, to, revision int64) reading { return reading{called: from, returned: to, revision: revision} }
	for what, c := range map[string]struct {
		all      []porcupine.Operation
		readings []reading
		fine     bool
	}{
		"one after the other":               {[]porcupine.Operation{write(1, 2, 10), write(3, 4, 11)}, []reading{read(5, 6, 11)}, true},
		"at the same time":                  {[]porcupine.Operation{write(1, 4, 11), write(3, 5, 10)}, nil, true},
		"back in time":                      {[]porcupine.Operation{write(1, 2, 11), write(3, 4, 10)}, nil, false},
		"twice the same":                    {[]porcupine.Operation{write(1, 2, 11), write(3, 4, 11)}, nil, false},
		"a stale read":                      {[]porcupine.Operation{write(1, 2, 11)}, []reading{read(3, 4, 10)}, false},
		"a write at a revision of a read":   {[]porcupine.Operation{write(3, 4, 11)}, []reading{read(1, 2, 11)}, false},
		"a read before another is answered": {nil, []reading{read(1, 4, 11), read(3, 5, 10)}, true},
		"a read after another":              {nil, []reading{read(1, 2, 11), read(3, 4, 10)}, false},
		"a read of an old revision":         {nil, []reading{read(1, 2, 11), {called: 3, returned: 4, asked: 9, revision: 10}}, true},
	} {
		if err := checkOrder(c.all, c.readings); (err == nil) != c.fine {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestRevisionsBeforeTheCommit: what PostgreSQL may answer, and what it must not.
func TestRevisionsBeforeTheCommit(t *testing.T) {
	created := op(1, 9, asked{verb: create, value: 7}, answered{done: true, revision: 10})
	other := op(2, 3, asked{verb: create, key: 1, value: 8}, answered{done: true, revision: 11})
	var both, lacks [keys]entry
	both[0], both[1], lacks[1] = entry{10, 7}, entry{11, 8}, entry{11, 8}
	list := func(from int64, revision int64, shown [keys]entry) porcupine.Operation {
		return op(from, from+1, asked{verb: list}, answered{revision: revision, shown: shown})
	}
	for what, c := range map[string]struct {
		all         []porcupine.Operation
		etcd, early bool
	}{
		"a list that lacks an earlier write":      {[]porcupine.Operation{created, other, list(4, 11, lacks), list(10, 11, both)}, false, true},
		"a list that lacks it for ever":           {[]porcupine.Operation{created, other, list(4, 11, lacks), list(10, 11, lacks)}, false, false},
		"a list that lacks what another shows":    {[]porcupine.Operation{created, other, list(4, 11, both), list(6, 11, lacks)}, false, false},
		"a list whose revision is not the newest": {[]porcupine.Operation{created, other, list(4, 10, both)}, false, false},
		"a key whose revisions go back":           {[]porcupine.Operation{created, op(10, 11, asked{verb: update, revision: 10, value: 9}, answered{done: true, revision: 9})}, false, false},
		"nothing of all that":                     {[]porcupine.Operation{created, other, list(10, 11, both)}, true, true},
	} {
		if porcupine.CheckOperations(promises, c.all) != c.etcd || porcupine.CheckOperations(promisesOfSQL, c.all) != c.early {
			t.Errorf("%s: etcd may %t, PostgreSQL may %t", what, !c.etcd, !c.early)
		}
	}
}

// TestWrongLeasesAreFound: keys that vanish without an event, too early, or never.
func TestWrongLeasesAreFound(t *testing.T) {
	first, again := leasedWrite{"a", 10, 1, 2, 100}, leasedWrite{"a", 12, 50, 51, 150}
	all := []leasedChange{{"a", 10, true, 3}, {"a", 12, true, 52}, {"a", 14, false, 160}}
	shown := func(called, revision int64, names ...string) leasedRead {
		r := leasedRead{called, called + 1, revision, map[string]bool{}}
		for _, name := range names {
			r.keys[name] = true
		}
		return r
	}
	for what, c := range map[string]struct {
		changes []leasedChange
		reads   []leasedRead
		want    string
	}{
		"as it was":                   {all, []leasedRead{shown(5, 10, "a"), shown(170, 14)}, ""},
		"before its time":             {[]leasedChange{all[0], all[1], {"a", 14, false, 140}}, nil, "before its time"},
		"before its new time":         {[]leasedChange{all[0], all[1], {"a", 14, false, 120}}, nil, "before its time"},
		"never":                       {all[:2], nil, "never vanish"},
		"twice":                       {append(slices.Clone(all), leasedChange{"a", 15, false, 170}), nil, "is not there"},
		"a write that no watch shows": {append(all[:1:1], all[2]), nil, "1 writes of 2"},
		"a write of nobody":           {append(slices.Clone(all), leasedChange{"b", 15, true, 170}), nil, "nobody wrote"},
		"a list without it":           {all, []leasedRead{shown(60, 12)}, "a list lacks a key"},
		"without an event":            {all, []leasedRead{shown(155, 13)}, "should be"},
		"there after the event":       {all, []leasedRead{shown(170, 14, "a")}, "should be"},
	} {
		l := &leases{writes: []leasedWrite{first, again}, reads: c.reads, changes: c.changes}
		if err := l.check(false); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	early := &leases{writes: []leasedWrite{first, again}, reads: []leasedRead{shown(60, 12)}, changes: all}
	if err := early.check(true); err == nil || !strings.Contains(err.Error(), "a list lacks a key") {
		t.Errorf("a list without it, of a store that gives revisions early: %v", err)
	}
}

// TestSlowWatchHasToBeSlow: one that has missed nothing shows nothing, unless the other watch of its server was refused.
func TestSlowWatchHasToBeSlow(t *testing.T) {
	for _, c := range []struct {
		missed        int64
		refused, fine bool
	}{
		{missed: changesToMiss() - 1}, {missed: changesToMiss() - 1, refused: true, fine: true}, {missed: changesToMiss(), fine: true},
	} {
		s := slowWatch{watcher: &watcher{}, others: &watcher{compacted: c.refused}, missed: c.missed}
		if err := s.check(); (err == nil) != c.fine {
			t.Errorf("after %d changes, with the other one refused %t: %v", c.missed, c.refused, err)
		}
	}
}

// TestCachesThatLackAreCounted: unless the watch shows what the list lacks.
func TestCachesThatLackAreCounted(t *testing.T) {
	var l lacks
	l.cache(nil, &watcher{})
	l.cache(recorded[:1], &watcher{pieces: []piece{{changes: recorded[:2]}}})
	if l.caches != 0 {
		t.Errorf("%d caches lack a change", l.caches)
	}
	if l.cache(recorded[:1], &watcher{pieces: []piece{{changes: recorded[1:]}}}); l.caches != 1 {
		t.Errorf("%d caches lack a change", l.caches)
	}
}

// TestAllThatWasSeenIsLeft: the file of a failed run has every operation, read and change.
func TestAllThatWasSeenIsLeft(t *testing.T) {
	h := &history{
		seed: 5, compacted: 9,
		record: &record{
			all:  []porcupine.Operation{op(3, 4, asked{verb: create, value: 7}, answered{done: true, revision: 10})},
			lost: []porcupine.Operation{op(1, 2, asked{verb: remove, revision: 8}, answered{})},
		},
		reads:    reads{all: []reading{at14(func(*reading) {})}},
		leases:   &leases{writes: []leasedWrite{{"a", 10, 1, 2, 100}}, reads: []leasedRead{{5, 6, 7, map[string]bool{"a": true}}}, changes: []leasedChange{{"a", 77, true, 3}}},
		watchers: []*watcher{{name: "watch 1", err: errors.New("torn"), pieces: []piece{{changes: recorded[:1]}, {progress: 333}}}},
	}
	var b strings.Builder
	h.write(&b)
	text := b.String()
	for _, part := range []string{
		"seed 5, compacted up to 9", "3 4 client 0: create 0, value 7, at 0: revision 10, done", "1 2 client 0: remove 0, value 0, at 8: no answer",
		"47 48 reading the keys", "1 2 a lease: {key:a", "5 6 keys with leases", "3 3 a key with a lease: {key:a revision:77", "watch 1, of key 0", "torn",
		"{revision:10 key:0", "all up to revision 333",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("it lacks %q:\n%s", part, text)
		}
	}
	if strings.Index(text, "remove 0") > strings.Index(text, "create 0") {
		t.Errorf("it is in no order:\n%s", text)
	}
}
