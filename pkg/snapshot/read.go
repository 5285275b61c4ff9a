package snapshot

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"io"
	"slices"

	"github.com/reap-dev/reap/pkg/datastore/dump"
)

// Visitor receives the content of a snapshot, in the order of its fields. A nil function is not called. An error ends the
// reading.
type Visitor struct {
	Begin func(Manifest) error
	File  func(name string, content []byte) error
	Key   func(dump.Record) error
}

// Read reads a whole snapshot. Do not use what the visitor received unless Read returns without an error: the checksum is
// at the end. Nothing may follow the snapshot in the input.
func Read(in io.Reader, v Visitor) (m Manifest, err error) {
	u, err := newUnframed(in)
	if err != nil {
		return m, err
	}
	defer u.close()
	if m, err = u.manifest(); err != nil {
		return m, err
	}
	if v.Begin != nil {
		if err := v.Begin(m); err != nil {
			return m, err
		}
	}
	c := contents{Manifest: m}
	for {
		kind, content, before, err := u.next()
		if err != nil {
			return m, err
		}
		switch kind {
		case kindFile:
			name, file, found := bytes.Cut(content, []byte{0})
			if !found {
				return m, damaged("a file has no name")
			}
			if err = c.file(content); err == nil && v.File != nil {
				err = v.File(string(name), slices.Clone(file))
			}
		case kindKey:
			var r dump.Record
			if r, err = readKey(content); err == nil {
				err = c.key(r)
			}
			if err == nil && v.Key != nil {
				err = v.Key(r)
			}
		case kindEnd:
			var t trailer
			if err := json.Unmarshal(content, &t); err != nil {
				return m, damaged("its end cannot be understood: %w", err)
			}
			if t.SHA256 != hex.EncodeToString(before) {
				return m, damaged("its SHA-256 is not %s", t.SHA256)
			}
			if err := c.whole(); err != nil {
				return m, err
			}
			return m, u.atEnd()
		default:
			err = damaged("it contains a frame of unknown kind %q", kind)
		}
		if err != nil {
			return m, err
		}
	}
}

// Head reads only the manifest. It does not check that the rest of the snapshot is complete.
func Head(in io.Reader) (m Manifest, err error) {
	u, err := newUnframed(in)
	if err != nil {
		return m, err
	}
	defer u.close()
	return u.manifest()
}

// manifest reads the first frame.
func (u *unframed) manifest() (m Manifest, err error) {
	kind, content, _, err := u.next()
	if err != nil {
		return m, err
	}
	if kind != kindManifest {
		return m, damaged("this is no snapshot of reap")
	}
	if err := json.Unmarshal(content, &m); err != nil {
		return m, damaged("its manifest cannot be understood: %w", err)
	}
	if m.Version == formatVersion && (m.Revision < 0 || m.Keys < 0) {
		return m, damaged("its manifest says revision %d and %d keys", m.Revision, m.Keys)
	}
	if m.Version != formatVersion {
		return m, damaged("it has format version %d, and this reap reads version %d: use the version of reap that made it (%s)", m.Version, formatVersion, m.Reap)
	}
	return m, nil
}
