// Package powercut records what a process does to its files, and makes the files that a power cut at any moment could have
// left. Recorded records SQLite's calls of libc, and needs no rights; a Disk records what all processes do to all files of a
// directory, and needs root and FUSE.
//
// What was synced is there. Of every write and truncation after a file's last sync, each may have reached the disk or
// not, whatever came before or after it, and a write also in part: 512 bytes are written whole or not at all. A removal
// lasts once any file has been synced after it, as with file systems that have a journal.
package powercut

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// sector is what a disk writes whole.
const sector = 512

//go:embed testdata/recorder.c
var recorder []byte

// Recorded returns the environment of a process whose database is recorded into a journal.
func Recorded(t *testing.T, journal string) []string {
	t.Helper()
	dir := t.TempDir()
	source, library := filepath.Join(dir, "recorder.c"), filepath.Join(dir, "recorder.so")
	if err := os.WriteFile(source, recorder, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-shared", "-fPIC", "-Wall", "-o", library, source, "-ldl", "-lpthread").CombinedOutput(); err != nil {
		t.Fatalf("compiling the recorder: %v\n%s", err, out)
	}
	return []string{"LD_PRELOAD=" + library, "REAP_TEST_JOURNAL=" + journal}
}

// Op is something that was done to a file.
type Op struct {
	// What is W for a write, T for a truncation, S for a sync, U for a removal. On a Disk also C for a new file, D for a
	// new folder, R for a new name.
	What byte
	// File is the name of the file. On a Disk, W, T and S have the number of its content: names change.
	File string
	// At is the offset of a write, the new size, or the number of a new file's content.
	At int64
	// Data is what was written, or the new name.
	Data []byte
	// End is how long the journal was afterwards.
	End int64
}

// Read reads a journal.
func Read(t *testing.T, journal string) (ops []Op) {
	t.Helper()
	raw, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	const head = 14
	for at := 0; len(raw)-at >= head; {
		name, n := int(raw[at+1]), int(binary.LittleEndian.Uint32(raw[at+10:]))
		o := Op{What: raw[at], At: int64(binary.LittleEndian.Uint64(raw[at+2:]))}
		if at+head+name+n > len(raw) {
			break // the process was killed while it wrote this
		}
		at += head
		o.File = string(raw[at : at+name])
		at += name
		o.Data = raw[at : at+n]
		at += n
		o.End = int64(at)
		ops = append(ops, o)
	}
	if len(ops) == 0 {
		t.Fatal("nothing was recorded")
	}
	return ops
}

// SyncedUpTo returns up to where in the journal all that was written to a file is on the disk if the power goes after
// these operations.
func SyncedUpTo(ops []Op, file string) int64 {
	for _, o := range slices.Backward(ops) {
		if o.What == 'S' && o.File == file {
			return o.End
		}
	}
	return 0
}

// After returns the files that are left if the power goes after these operations.
func After(ops []Op, random *rand.Rand) map[string][]byte {
	synced, anySync := map[string]int{}, 0
	for i, o := range ops {
		if o.What == 'S' {
			synced[o.File], anySync = i, i
		}
	}
	// In some cuts nearly everything has reached the disk, in others hardly anything.
	luck := random.Float64()
	files := map[string][]byte{}
	for i, o := range ops {
		last, ever := synced[o.File]
		certain := ever && i < last || o.What == 'U' && i < anySync
		if certain || random.Float64() < luck {
			o.apply(files, nil)
		} else if o.What == 'W' && random.IntN(2) == 0 {
			o.apply(files, random)
		}
	}
	return files
}

// apply does what was done. With random, each sector of a write is there or not.
func (o Op) apply(files map[string][]byte, random *rand.Rand) {
	switch o.What {
	case 'U':
		delete(files, o.File)
	case 'T':
		files[o.File] = resized(files[o.File], int(o.At), true)
	case 'W':
		content := files[o.File]
		for at := 0; at < len(o.Data); {
			end := min(len(o.Data), at+sector-(int(o.At)+at)%sector)
			if random == nil || random.IntN(2) == 0 {
				content = resized(content, int(o.At)+end, false)
				copy(content[int(o.At)+at:], o.Data[at:end])
			}
			at = end
		}
		if content != nil {
			files[o.File] = content
		}
	}
}

// resized returns content with a length of size, or at least that.
func resized(content []byte, size int, cut bool) []byte {
	switch {
	case len(content) < size:
		return append(content, make([]byte, size-len(content))...)
	case cut:
		return content[:size:size]
	}
	return content
}

// Write writes the files into a directory that has none of them.
func Write(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(fmt.Errorf("writing what a power cut has left: %w", err))
		}
	}
}
