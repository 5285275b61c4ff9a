package datastore

import (
	"context"

	"k8s.io/utils/lru"
)

// counter counts keys. With each page of a list the API server is told how many keys there are from the page's first
// to the list's end. Counted anew for each page, a list of 100,000 objects would read the index of nearly all of them for each 500.
//
// What a revision holds does not change. So the counter remembers a count, and counts only the keys between its first key and that of
// the next page. It may be used concurrently.
type counter struct {
	count func(ctx context.Context, key, end string, revision int64) (current, keys int64, err error)
	known *lru.Cache // list to counted
}

// list is a list's end and revision. All of its pages have them.
type list struct {
	end      string
	revision int64
}

// counted is how many keys there are from one key on to the end of a list.
type counted struct {
	from string
	keys int64
}

// knownCounts is for how many lists a count is remembered. Clients seldom read as many at a time; a list that is forgotten is counted again.
const knownCounts = 64

func newCounter(count func(context.Context, string, string, int64) (int64, int64, error)) *counter {
	return &counter{count: count, known: lru.New(knownCounts)}
}

// Count returns the store's current revision and the number of keys from key to before end at a revision. Without a revision it counts
// what there is now, and without a key everything.
func (c *counter) Count(ctx context.Context, key, end string, revision int64) (current, keys int64, err error) {
	if key == "" || revision == 0 {
		return c.count(ctx, key, end, revision)
	}
	of := list{end, revision}
	before, is := c.known.Get(of)
	if is {
		// A revision that has been compacted meanwhile is refused here too.
		b := before.(counted)
		current, keys, err = c.count(ctx, min(key, b.from), max(key, b.from), revision)
		if key < b.from {
			keys = b.keys + keys
		} else {
			keys = b.keys - keys
		}
	} else {
		current, keys, err = c.count(ctx, key, end, revision)
	}
	if err != nil {
		return current, 0, err
	}
	c.known.Add(of, counted{key, keys})
	return current, keys, nil
}
