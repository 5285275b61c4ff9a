// Package export writes what a datastore holds for programs that are not reap's: one JSON object a line for each key.
// Nobody needs reap, or a Kubernetes, to read it.
package export

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/reap-dev/reap/pkg/datastore/dump"
)

// Line is a key as JSONLines writes it. Its fields are stable.
type Line struct {
	Key string `json:"key"`
	// CreateRevision and ModRevision are the revisions of its creation and of its last change. The last is the object's
	// resourceVersion.
	CreateRevision int64 `json:"createRevision"`
	ModRevision    int64 `json:"modRevision"`
	// Version counts the changes since the creation; SQLite does not count them.
	Version int64 `json:"version,omitempty"`
	// TTLSeconds is after how long the key goes by itself; 0 is never.
	TTLSeconds int64 `json:"ttlSeconds,omitempty"`
	dump.Identity
	// Value is what is stored, byte for byte; JSON has it in base64.
	Value []byte `json:"value"`
	// Object is the value as JSON, if its type is known.
	Object json.RawMessage `json:"object,omitempty"`
}

// JSONLines writes a line for each key, in the order of the keys, all at one revision. Progress is called with the keys
// written and those that there are.
func JSONLines(ctx context.Context, out io.Writer, from dump.Source, progress func(done, all int64)) (head dump.Head, err error) {
	sink := &lines{json.NewEncoder(out)}
	sink.out.SetEscapeHTML(false)
	return dump.Copy(ctx, from, sink, progress)
}

// lines is a dump.Sink that is a text.
type lines struct{ out *json.Encoder }

// Put implements dump.Sink.
func (l *lines) Put(r dump.Record) error {
	// A value that cannot be decoded, as an encrypted one, is exported like the others.
	identity, object := describe(r.Value)
	err := l.out.Encode(Line{
		Key: string(r.Key), CreateRevision: r.CreateRevision, ModRevision: r.ModRevision, Version: r.Version,
		TTLSeconds: int64(r.TTL / time.Second), Identity: identity, Value: r.Value, Object: object,
	})
	if err != nil {
		return fmt.Errorf("writing the export: %w", err)
	}
	return nil
}

// Finish implements dump.Sink.
func (*lines) Finish(int64) error { return nil }

// Close implements dump.Sink.
func (*lines) Close() error { return nil }
