package snapshot

import (
	"bytes"

	"github.com/reap-dev/reap/pkg/datastore/dump"
)

// contents checks that what follows a manifest is what the manifest promises, and can be that of one store. The checksum does not
// say that: the writer of a snapshot computes it.
type contents struct {
	Manifest
	keys     int64
	pkiBytes int
	before   []byte // the last key
	// The keys are in the order of their bytes, or that of a database which does not distinguish upper case from lower. With either
	// no key comes twice.
	unordered, unfolded bool
}

func (c *contents) file(content []byte) error {
	if !c.PKI {
		return damaged("it holds keys and certificates, and its manifest says that it does not")
	}
	if c.pkiBytes += len(content); c.pkiBytes > maxPKI {
		return damaged("its keys and certificates take more than %d bytes", maxPKI)
	}
	return nil
}

func (c *contents) key(r dump.Record) error {
	if r.ModRevision > c.Revision {
		return damaged("the key %q is of revision %d, and the snapshot of revision %d", r.Key, r.ModRevision, c.Revision)
	}
	if c.keys++; c.keys > 1 {
		c.unordered = c.unordered || bytes.Compare(c.before, r.Key) >= 0
		c.unfolded = c.unfolded || bytes.Compare(bytes.ToLower(c.before), bytes.ToLower(r.Key)) >= 0
	}
	if c.unordered && c.unfolded {
		return damaged("the key %q comes twice, or is not in its place", r.Key)
	}
	c.before = r.Key
	return nil
}

// whole returns an error if something is missing at the end.
func (c *contents) whole() error {
	if c.keys != c.Keys {
		return damaged("it holds %d keys and should hold %d", c.keys, c.Keys)
	}
	if c.PKI && c.pkiBytes == 0 {
		return damaged("it holds no keys and certificates, and its manifest says that it does")
	}
	return nil
}
