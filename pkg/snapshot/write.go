package snapshot

import (
	"context"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/reap-dev/reap/pkg/datastore/dump"
)

// Contents is the content of a snapshot.
type Contents struct {
	Source dump.Source
	// PKI holds the files of the PKI by name; nil for none.
	PKI map[string][]byte
	// Reap is the version of the server, Now the time.
	Reap string
	Now  time.Time
}

// Write writes a snapshot while it reads the datastore, and keeps at most one page of keys in memory. After an error the
// output is incomplete, and Read returns an error for it.
func Write(ctx context.Context, out io.Writer, c Contents) (m Manifest, err error) {
	f, err := newFrames(out)
	if err != nil {
		return m, err
	}
	begin := func(h dump.Head) error {
		m = Manifest{
			Version: formatVersion, Made: c.Now.UTC().Truncate(time.Second), Revision: h.Revision, Keys: h.Keys, PKI: c.PKI != nil, Reap: c.Reap,
		}
		if err := f.writeJSON(kindManifest, m); err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(c.PKI)) {
			if err := f.write(kindFile, slices.Concat([]byte(name), []byte{0}, c.PKI[name])); err != nil {
				return err
			}
		}
		return nil
	}
	var raw []byte
	each := func(r dump.Record) error {
		raw = appendKey(raw[:0], r)
		return f.write(kindKey, raw)
	}
	if err := c.Source.Read(ctx, begin, each); err != nil {
		return m, err
	}
	return m, f.end()
}
