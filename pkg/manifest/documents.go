package manifest

import (
	"bytes"
	"encoding/json"
	"unicode"
	"unicode/utf8"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// lookahead is how much of a text decides whether it begins as JSON; it is kubectl's value.
const lookahead = 4096

// piece is a part of a text, with the offset of its begin and of its end.
type piece struct{ from, to int }

// documents are the pieces of a text that utilyaml.YAMLOrJSONDecoder decodes, one a call. The decoder does not tell where they are.
// They are for the lines in errors, and for the places of edits, which Write verifies: no object is read from them.
type documents struct {
	text []byte
	at   int
	json bool
}

func newDocuments(text []byte) *documents {
	return &documents{text: text, json: utilyaml.IsJSONBuffer(text[:min(len(text), lookahead)])}
}

// next returns the next piece. JSON documents follow each other as they are; from the first that is none, lines that begin with
// --- stand between documents.
func (d *documents) next() piece {
	if d.json {
		decoder := json.NewDecoder(bytes.NewReader(d.text[d.at:]))
		var skipped json.RawMessage
		if decoder.Decode(&skipped) == nil {
			from := d.at + len(d.text[d.at:]) - len(bytes.TrimLeft(d.text[d.at:], " \t\r\n"))
			d.at += int(decoder.InputOffset())
			return piece{from, d.at}
		}
		d.json = false
		d.skipSpace()
	}
	from := d.at
	for some := false; d.at < len(d.text); some = true {
		begin := d.at
		if n := bytes.IndexByte(d.text[d.at:], '\n'); n >= 0 {
			d.at += n + 1
		} else {
			d.at = len(d.text)
		}
		if some && bytes.HasPrefix(d.text[begin:], []byte("---")) {
			return piece{from, begin}
		}
	}
	return piece{from, d.at}
}

// skipSpace skips white space up to the end of the line.
func (d *documents) skipSpace() {
	for d.at < len(d.text) {
		r, size := utf8.DecodeRune(d.text[d.at:])
		if !unicode.IsSpace(r) {
			return
		}
		d.at += size
		if r == '\n' {
			return
		}
	}
}

// line returns the line of an offset, counted from 1.
func line(text []byte, offset int) int {
	return 1 + bytes.Count(text[:min(max(offset, 0), len(text))], []byte("\n"))
}
