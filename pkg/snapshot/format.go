// Package snapshot makes and reads backups of a running server: the content of its datastore at one revision, and the keys
// and certificates that are needed to use it.
//
// A snapshot is one zstd stream, in the same format for every engine. It consists of frames: a byte for the kind, the
// length as a varint, and that many bytes of content:
//
//	M  the manifest, as JSON; the first frame
//	F  a file of the PKI: its name, a zero byte, its content
//	K  a key: etcd's mvccpb.KeyValue, whose lease field holds the seconds after which the key expires
//	E  the end, as JSON: the SHA-256 of all frames before it; the last frame
//
// Readers must not use any part of a snapshot before they have read and checked the last frame.
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

// formatVersion is increased when older readers would misread the format.
const formatVersion = 1

// Manifest describes the content of a snapshot. Its fields are stable.
type Manifest struct {
	Version int `json:"version"`
	// Made is when the snapshot was made, by the clock of the server.
	Made time.Time `json:"made"`
	// Revision is the datastore's revision at which it was read, Keys the number of keys.
	Revision int64 `json:"revision"`
	Keys     int64 `json:"keys"`
	// PKI is true if the snapshot contains the keys and certificates: they give their holder all rights.
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

// The bounds of what is read, so that no file, damaged or made to harm, exhausts memory or the disk. Frames are read one at a
// time; only the files of the PKI are kept together.
const (
	// maxFrame is the largest accepted frame in bytes. The API server accepts objects of 3 MiB.
	maxFrame = 16 << 20
	// maxPKI is how large all files of the PKI may be together. A server's are 20 kB.
	maxPKI = 1 << 20
	// A snapshot may unpack to maxRatio times its compressed bytes, and to freely more. Objects have names and UIDs of their
	// own: they are packed to a hundredth at the most.
	maxRatio = 1000
	freely   = 64 << 20
)

// frames writes frames and computes their checksum.
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

// errDamaged is wrapped by every error about the content of a snapshot, and by no error of the underlying reader.
var errDamaged = errors.New("the snapshot is damaged")

// IsDamaged reports whether an error of Read or Head means that the input is not a complete snapshot.
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
	read int64 // unpacked bytes
}

// source remembers errors of the underlying reader, which do not mean that the snapshot is damaged.
type source struct {
	io.Reader
	read int64 // bytes
	err  error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	s.read += int64(n)
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

// next returns the next frame and the checksum of all frames before it. content is valid until the next call.
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
	if u.read += int64(length); u.read > freely+maxRatio*u.src.read {
		return 0, nil, nil, damaged("its first %d bytes unpack to more than %d", u.src.read, freely+maxRatio*u.src.read)
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

// atEnd returns an error if anything follows the last frame.
func (u *unframed) atEnd() error {
	switch _, err := u.in.ReadByte(); {
	case err == nil:
		return damaged("data follows its end")
	case err == io.EOF:
		return nil
	default:
		return u.failed(err)
	}
}

// failed distinguishes errors of the underlying reader from damage.
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
