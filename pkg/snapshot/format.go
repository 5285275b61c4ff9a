// Package snapshot keeps backups of a running server: what its datastore holds at one revision, and the keys and
// certificates without which nobody could use that.
//
// A snapshot is one zstd stream, the same for every engine. In it are frames, each a byte that says its kind, its length
// as a varint, and so many bytes:
//
//	M  the manifest, as JSON; the first frame
//	F  a file of the PKI: its name, a zero byte, its content
//	K  a key: etcd's mvccpb.KeyValue, whose lease is the seconds after which it goes
//	E  the end, as JSON: the SHA-256 of all frames before it; the last frame
//
// Who reads one and does not come to the end has not read a snapshot: nothing of it is to be used.
package snapshot

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"github.com/klauspost/compress/zstd"
)

// formatVersion grows when an older reader would misunderstand.
const formatVersion = 1

// Manifest says what a snapshot holds. Its fields are stable.
type Manifest struct {
	Version int `json:"version"`
	// Made is when, by the clock of the server.
	Made time.Time `json:"made"`
	// Revision is the one that the datastore was read at, Keys how many there were.
	Revision int64 `json:"revision"`
	Keys     int64 `json:"keys"`
	// PKI is true if the keys and certificates are in it: whoever has it is the administrator.
	PKI bool `json:"pki"`
	// Reap is the version of the server.
	Reap string `json:"reap"`
}

// trailer is the last frame.
type trailer struct {
	SHA256 string `json:"sha256"`
}

// The kinds of frames.
const (
	kindManifest = 'M'
	kindFile     = 'F'
	kindKey      = 'K'
	kindEnd      = 'E'
)

// maxFrame bounds what a damaged length makes a reader allocate. No key is nearly that large.
const maxFrame = 64 << 20

// frames writes frames and knows the sum of all so far.
type frames struct {
	out    *zstd.Encoder
	sum    hash.Hash
	header [1 + binary.MaxVarintLen64]byte
}

func newFrames(out io.Writer) (*frames, error) {
	z, err := zstd.NewWriter(out, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, err
	}
	return &frames{out: z, sum: sha256.New()}, nil
}

func (f *frames) write(kind byte, content []byte) error {
	f.header[0] = kind
	n := 1 + binary.PutUvarint(f.header[1:], uint64(len(content)))
	for _, part := range [][]byte{f.header[:n], content} {
		f.sum.Write(part)
		if _, err := f.out.Write(part); err != nil {
			return fmt.Errorf("writing the snapshot: %w", err)
		}
	}
	return nil
}

func (f *frames) writeJSON(kind byte, content any) error {
	raw, err := json.Marshal(content)
	if err != nil {
		return err
	}
	return f.write(kind, raw)
}

// end writes the last frame.
func (f *frames) end() error {
	if err := f.writeJSON(kindEnd, trailer{SHA256: hex.EncodeToString(f.sum.Sum(nil))}); err != nil {
		return err
	}
	if err := f.out.Close(); err != nil {
		return fmt.Errorf("writing the snapshot: %w", err)
	}
	return nil
}

// errDamaged is in every error about what a snapshot holds, and in none about reading it.
var errDamaged = errors.New("the snapshot is damaged")

// IsDamaged reports whether an error of Read or Head means that what was read is no whole snapshot.
func IsDamaged(err error) bool { return errors.Is(err, errDamaged) }

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %w", errDamaged, fmt.Errorf(format, args...))
}

// unframed reads frames.
type unframed struct {
	zstd *zstd.Decoder
	in   *bufio.Reader
	src  *source
	sum  hash.Hash
	buf  []byte
}

// source remembers why the stream below could not be read, which is no damage.
type source struct {
	io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

func newUnframed(in io.Reader) (*unframed, error) {
	src := &source{Reader: in}
	z, err := zstd.NewReader(src, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(8<<20))
	if err != nil {
		return nil, err
	}
	return &unframed{zstd: z, in: bufio.NewReader(z), src: src, sum: sha256.New()}, nil
}

func (u *unframed) close() { u.zstd.Close() }

// next returns the next frame, whose content is good until the one after it is read, and the sum of all before it.
func (u *unframed) next() (kind byte, content []byte, before []byte, err error) {
	before = u.sum.Sum(nil)
	kind, err = u.in.ReadByte()
	if err != nil {
		return 0, nil, nil, u.failed(err)
	}
	length, err := binary.ReadUvarint(u.in)
	if err != nil {
		return 0, nil, nil, u.failed(err)
	}
	if length > maxFrame {
		return 0, nil, nil, damaged("it claims a frame of %d bytes", length)
	}
	if uint64(cap(u.buf)) < length {
		u.buf = make([]byte, length)
	}
	u.buf = u.buf[:length]
	if _, err := io.ReadFull(u.in, u.buf); err != nil {
		return 0, nil, nil, u.failed(err)
	}
	var header [1 + binary.MaxVarintLen64]byte
	header[0] = kind
	u.sum.Write(header[:1+binary.PutUvarint(header[1:], length)])
	u.sum.Write(u.buf)
	return kind, u.buf, before, nil
}

// atEnd is an error if anything follows the last frame.
func (u *unframed) atEnd() error {
	switch _, err := u.in.ReadByte(); {
	case err == nil:
		return damaged("something follows its end")
	case err == io.EOF:
		return nil
	default:
		return u.failed(err)
	}
}

// failed tells an input that cannot be read from one that holds something else.
func (u *unframed) failed(err error) error {
	switch {
	case u.src.err != nil:
		return fmt.Errorf("reading the snapshot: %w", u.src.err)
	case errors.Is(err, zstd.ErrMagicMismatch):
		return damaged("this is no snapshot of reap")
	case err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF):
		return damaged("it is cut off")
	default:
		return damaged("%w", err)
	}
}
