package datastore

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/sirupsen/logrus"
)

// The log's format: https://www.sqlite.org/fileformat2.html#walformat
const (
	walHeader      = 32
	walFrameHeader = 24
	walMagic       = 0x377f0682 // the lowest bit says that checksums are of big-endian words
)

// walState is what a look at SQLite's log has found. SQLite itself reads the log up to the first frame that its
// checksum does not fit, and takes the rest for what a power cut has left.
type walState struct {
	// size is in bytes.
	size int64
	// salt tells one log from the next in the same file.
	salt [8]byte
	// headerDamaged is true if the log has frames that SQLite does not read because the header is damaged. The header
	// lies within one sector, and is on the disk before any frame is written, so that no power cut leaves that.
	headerDamaged bool
	// usable is how many frames precede the first that is not whole.
	usable int
	// cutOff is how many whole transactions end behind that frame. With synchronous=full a transaction is on the disk
	// before the next one begins, so that a power cut leaves one at most.
	cutOff int
}

// brokenOff reports whether SQLite will leave out transactions that cannot all have been under way when the power went,
// if each was synced.
func (s walState) brokenOff() bool { return s.cutOff > 1 }

// readWAL looks at the log beside a database. A missing one is empty.
func readWAL(path string) (s walState, err error) {
	f, err := os.Open(path + "-wal")
	if errors.Is(err, os.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, fmt.Errorf("looking at the database's log: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil {
		return s, err
	}
	s.size = info.Size()
	err = s.read(bufio.NewReaderSize(f, 1<<16))
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil // what is left of a frame is none
	}
	return s, err
}

func (s *walState) read(in io.Reader) error {
	header := make([]byte, walHeader)
	if _, err := io.ReadFull(in, header); err != nil {
		return err
	}
	copy(s.salt[:], header[16:24])
	magic := binary.BigEndian.Uint32(header)
	sums := checksums{order: binary.LittleEndian}
	if magic&1 != 0 {
		sums.order = binary.BigEndian
	}
	sums.add(header[:24])
	frame := make([]byte, walFrameHeader)
	if magic&^1 != walMagic || !sums.are(header[24:]) {
		if _, err := io.ReadFull(in, frame); err != nil {
			return err
		}
		s.headerDamaged = [walFrameHeader]byte(frame) != [walFrameHeader]byte{}
		return nil
	}
	page := make([]byte, binary.BigEndian.Uint32(header[8:]))
	for broken := false; ; {
		if _, err := io.ReadFull(in, frame); err != nil {
			return err
		}
		if _, err := io.ReadFull(in, page); err != nil {
			return err
		}
		own := [8]byte(frame[8:16]) == s.salt
		sums.add(frame[:8])
		sums.add(page)
		whole := own && sums.are(frame[16:])
		switch {
		case !whole:
			broken = true
		case !broken:
			s.usable++
		case binary.BigEndian.Uint32(frame[4:]) != 0: // the last frame of a transaction
			s.cutOff++
		}
		// The next one builds on what this one should have.
		sums.set(frame[16:])
	}
}

// checksums are those of SQLite's log, each over all before it.
type checksums struct {
	order binary.ByteOrder
	a, b  uint32
}

func (c *checksums) add(data []byte) {
	for ; len(data) >= 8; data = data[8:] {
		c.a += c.order.Uint32(data) + c.b
		c.b += c.order.Uint32(data[4:]) + c.a
	}
}

func (c *checksums) are(stored []byte) bool {
	return c.a == binary.BigEndian.Uint32(stored) && c.b == binary.BigEndian.Uint32(stored[4:])
}

func (c *checksums) set(stored []byte) {
	c.a, c.b = binary.BigEndian.Uint32(stored), binary.BigEndian.Uint32(stored[4:])
}

// KeepBrokenLog copies the log of the database in a data directory if SQLite is about to leave out transactions that
// follow a damaged one. A power cut leaves such a log where writes were not synced.
func KeepBrokenLog(dir string) error {
	path := sqlitePath(dir)
	s, err := readWAL(path)
	if err != nil || !s.brokenOff() {
		return err
	}
	kept := fmt.Sprintf("%s-wal.broken-%x", path, s.salt) // the same for the next start, if this one fails
	if info, err := os.Stat(kept); err != nil || info.Size() != s.size {
		if err := copyFile(kept, path+"-wal"); err != nil {
			return fmt.Errorf("keeping a copy of the database's log, which is damaged: %w", err)
		}
	}
	logrus.WithFields(logrus.Fields{"lost": s.cutOff, "log": kept}).
		Error("the database's log is damaged: its last transactions are lost; a copy of the log is kept")
	return nil
}

// copyFile returns when the copy is on the disk.
func copyFile(to, from string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // only read
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.Sync()
}
