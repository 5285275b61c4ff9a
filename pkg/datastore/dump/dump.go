// Package dump moves what a datastore holds: into a snapshot, out of one, or from one engine to another. It knows no
// engine. A Source reads a running store through the etcd API, which every engine speaks, and a Sink builds a new one.
//
// A dump holds each key once, as it is at one revision. History is not part of it: whoever watches from an earlier
// revision has to start over.
package dump

import (
	"context"
	"time"
)

// Record is a key as it is at the revision of the dump.
type Record struct {
	Key, Value []byte
	// CreateRevision and ModRevision are those of the store that was read. Objects keep them as their
	// resourceVersions.
	CreateRevision, ModRevision int64
	// Version counts the changes of the key since it was created; 0 if the store does not count them, as kine.
	Version int64
	// TTL is after how long the key goes by itself; 0 is never.
	TTL time.Duration
}

// Head is what is known before the first record.
type Head struct {
	// Revision is that of the dump: it holds every write up to it and none after.
	Revision int64
	// Keys is how many records follow.
	Keys int64
}

// Source is a store that can be read.
type Source interface {
	// Read calls begin once, then each for every key, in the order of the keys. Their first error ends it. A record's
	// bytes are the callee's to keep.
	Read(ctx context.Context, begin func(Head) error, each func(Record) error) error
}

// Sink builds a store that nobody uses yet.
type Sink interface {
	// Put adds a record. Records come in the order of their keys, no key twice.
	Put(Record) error
	// Finish completes the store, and returns when all of it is on the disk. The store is at the given revision, which
	// is none of the records': the next write gets a later one, and everything below counts as compacted.
	Finish(revision int64) error
	// Close gives up what is not finished. It may be called after Finish, and does nothing then.
	Close() error
}
