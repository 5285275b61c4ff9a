package dump

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// memory is a store that holds these records, and counts as many as it should have.
type memory struct {
	records []Record
	counts  int64
	fails   error // after the records
}

func (m memory) Read(_ context.Context, begin func(Head) error, each func(Record) error) error {
	if err := begin(Head{Revision: 9, Keys: m.counts}); err != nil {
		return err
	}
	for _, r := range m.records {
		if err := each(r); err != nil {
			return err
		}
	}
	return m.fails
}

func TestCompareNamesTheFirstDifference(t *testing.T) {
	want := []Record{
		{Key: []byte("/a"), Value: []byte("1"), CreateRevision: 1, ModRevision: 2},
		{Key: []byte("/b"), Value: []byte("2"), CreateRevision: 3, ModRevision: 3, TTL: time.Hour},
		{Key: []byte("/c"), Value: []byte("3"), CreateRevision: 4, ModRevision: 4},
	}
	changed := func(change func([]Record)) []Record {
		got := slices.Clone(want)
		change(got)
		return got
	}
	broken := errors.New("the disk is broken")
	for name, tc := range map[string]struct {
		got  memory
		says string // "" for no difference
	}{
		"equal":         {memory{records: want, counts: 3}, ""},
		"time runs":     {memory{records: changed(func(r []Record) { r[1].TTL = time.Minute }), counts: 3}, ""},
		"value":         {memory{records: changed(func(r []Record) { r[1].Value = []byte("x") }), counts: 3}, "/b has another value"},
		"key":           {memory{records: changed(func(r []Record) { r[1].Key = []byte("/bb") }), counts: 3}, "/bb is where /b should be"},
		"revision":      {memory{records: changed(func(r []Record) { r[2].ModRevision = 5 }), counts: 3}, "/c has the revisions 4 and 5"},
		"created":       {memory{records: changed(func(r []Record) { r[0].CreateRevision = 2 }), counts: 3}, "/a has the revisions 2 and 2"},
		"does not go":   {memory{records: changed(func(r []Record) { r[1].TTL = 0 }), counts: 3}, "/b goes after"},
		"last missing":  {memory{records: want[:2], counts: 2}, "/c is missing"},
		"first missing": {memory{records: want[1:], counts: 2}, "/b is where /a should be"},
		"one more":      {memory{records: append(slices.Clone(want), Record{Key: []byte("/d")}), counts: 4}, "/d should not be there"},
		"count":         {memory{records: want, counts: 4}, "4 keys instead of 3"},
		"unreadable":    {memory{records: want[:1], counts: 3, fails: broken}, broken.Error()},
		"at its end":    {memory{records: want, counts: 3, fails: broken}, broken.Error()},
	} {
		compared := int64(0)
		err := Compare(t.Context(), memory{records: want, counts: 3}, tc.got, func(done, _ int64) { compared = done })
		switch {
		case tc.says == "" && (err != nil || compared != 3):
			t.Errorf("%s: %d compared, %v", name, compared, err)
		case tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)):
			t.Errorf("%s: it says %v", name, err)
		}
	}
	err := Compare(t.Context(), memory{records: want[:1], counts: 3, fails: broken}, memory{records: want, counts: 3}, func(int64, int64) {})
	if !errors.Is(err, broken) {
		t.Errorf("an unreadable original: %v", err)
	}
}
