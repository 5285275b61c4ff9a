package datastore

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
)

// The index of SQLite's log, state.db-shm, which a killed server leaves: https://www.sqlite.org/walformat.html#the_wal_index_file_format
const (
	walIndexHeader   = 48 // of which there are two, the same
	walIndexVersion  = 3007000
	walIndexInit     = 12
	walIndexFrames   = 16
	walIndexSalt     = 32
	walIndexChecksum = 40
	walIndexTaken    = 96 // frames that a checkpoint has taken
	walIndexBytes    = 100
)

// walIndex is what SQLite knew of its log when it was last used. It says so without a sync, and for nothing.
type walIndex struct {
	salt [8]byte
	// frames end with the last transaction. A checkpoint has put the first taken of them into the database, but for pages that later ones
	// change again: until it has taken all, the database is whole only with the log.
	frames, taken int
}

// readWALIndex returns what the index of the log beside a database says; known is false if it says nothing.
func readWALIndex(path string) (i walIndex, known bool, err error) {
	f, err := os.Open(path + "-shm")
	if errors.Is(err, os.ErrNotExist) {
		return i, false, nil
	}
	if err != nil {
		return i, false, err
	}
	defer func() { _ = f.Close() }() // only read
	raw := make([]byte, walIndexBytes)
	if _, err := io.ReadFull(f, raw); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = nil // it was just made
		}
		return i, false, err
	}
	number := func(at int) uint32 { return binary.NativeEndian.Uint32(raw[at:]) }
	var sums checksums
	sums.order = binary.LittleEndian
	if binary.NativeEndian.Uint16([]byte{0, 1}) == 1 {
		sums.order = binary.BigEndian
	}
	sums.add(raw[:walIndexChecksum])
	whole := string(raw[:walIndexHeader]) == string(raw[walIndexHeader:2*walIndexHeader]) && number(0) == walIndexVersion && raw[walIndexInit] == 1 &&
		sums.a == number(walIndexChecksum) && sums.b == number(walIndexChecksum+4)
	if !whole {
		return i, false, nil // as after a power cut
	}
	copy(i.salt[:], raw[walIndexSalt:])
	i.frames, i.taken = int(number(walIndexFrames)), int(number(walIndexTaken))
	return i, i.frames > 0, nil
}

// LogLacks reports whether the log of the database in a data directory lacks transactions that no power cut may have taken. It must be asked before
// anything opens the database: SQLite goes on with the log that there is, and forgets what it knew.
//
// synced is true if each write was synced. powered is true if the power has been on since the database was used last: then all that the process
// wrote is there, and the log's index is as new as the log. After a power cut it may be of any moment before.
//
// Without its end the log does not always leave the state of an earlier revision: where a checkpoint has put pages into the database, older ones that
// are left in the log hide them, and an object may be missing that was made before one that is there.
func LogLacks(dir string, synced, powered bool) (bool, error) {
	path := sqlitePath(dir)
	log, err := readWAL(path)
	if err != nil {
		return false, err
	}
	if synced && log.brokenOff() {
		return true, nil
	}
	if !powered {
		return false, nil
	}
	index, known, err := readWALIndex(path)
	if err != nil || !known {
		return false, err
	}
	usable := log.usable
	if log.salt != index.salt { // it is none, or another
		usable = 0
	}
	allTaken := usable == 0 && index.taken == index.frames // into the database
	return usable < index.frames && !allTaken, nil
}
