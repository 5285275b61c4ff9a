package snapshot

import (
	"bytes"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/reap-dev/reap/pkg/datastore/dump"
)

// The fields of etcd's mvccpb.KeyValue.
const (
	fieldKey            = 1
	fieldCreateRevision = 2
	fieldModRevision    = 3
	fieldVersion        = 4
	fieldValue          = 5
	fieldLease          = 6 // the seconds after which the key expires
)

// maxTTL is etcd's longest time to live of a lease, in seconds.
const maxTTL = 9_000_000_000

// appendKey appends a record as the content of a frame.
func appendKey(to []byte, r dump.Record) []byte {
	number := func(field protowire.Number, n int64) {
		if n != 0 {
			to = protowire.AppendVarint(protowire.AppendTag(to, field, protowire.VarintType), uint64(n))
		}
	}
	to = protowire.AppendBytes(protowire.AppendTag(to, fieldKey, protowire.BytesType), r.Key)
	number(fieldCreateRevision, r.CreateRevision)
	number(fieldModRevision, r.ModRevision)
	number(fieldVersion, r.Version)
	to = protowire.AppendBytes(protowire.AppendTag(to, fieldValue, protowire.BytesType), r.Value)
	number(fieldLease, int64(r.TTL/time.Second))
	return to
}

// readKey parses the output of appendKey. It ignores unknown fields.
func readKey(content []byte) (r dump.Record, err error) {
	numbers := map[protowire.Number]*int64{
		fieldCreateRevision: &r.CreateRevision, fieldModRevision: &r.ModRevision, fieldVersion: &r.Version, fieldLease: new(int64),
	}
	texts := map[protowire.Number]*[]byte{fieldKey: &r.Key, fieldValue: &r.Value}
	for len(content) > 0 {
		field, kind, n := protowire.ConsumeTag(content)
		if n < 0 {
			return r, damaged("a key cannot be understood: %w", protowire.ParseError(n))
		}
		content = content[n:]
		number, text := numbers[field], texts[field]
		switch {
		case number != nil && kind == protowire.VarintType:
			var v uint64
			v, n = protowire.ConsumeVarint(content)
			*number = int64(v)
		case text != nil && kind == protowire.BytesType:
			var v []byte
			v, n = protowire.ConsumeBytes(content)
			*text = bytes.Clone(v)
		default:
			n = protowire.ConsumeFieldValue(field, kind, content)
		}
		if n < 0 {
			return r, damaged("a key cannot be understood: %w", protowire.ParseError(n))
		}
		content = content[n:]
	}
	if len(r.Key) == 0 || r.ModRevision <= 0 || r.CreateRevision <= 0 || r.CreateRevision > r.ModRevision {
		return r, damaged("a key without a name, or with impossible revisions")
	}
	seconds := *numbers[fieldLease]
	if seconds < 0 || seconds > maxTTL || r.Version < 0 {
		return r, damaged("the key %q has an impossible time to live (%d seconds) or version (%d)", r.Key, seconds, r.Version)
	}
	r.TTL = time.Duration(seconds) * time.Second
	return r, nil
}
