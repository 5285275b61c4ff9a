package powercut

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Files returns the files and folders of a Disk that are left if the power goes after these operations, by path. A folder's
// path ends with a slash.
//
// Of their contents, what After says is left. Names come and go in order, as in the journal of a file system: all up to the
// last sync of anything, and as many more as chance has it.
func Files(ops []Op, random *rand.Rand) map[string][]byte {
	var contents, names []Op
	certain := 0 // of the names
	for _, o := range ops {
		switch o.What {
		case 'W', 'T':
			contents = append(contents, o)
		case 'S':
			contents = append(contents, o)
			certain = len(names)
		default:
			names = append(names, o)
		}
	}
	left := After(contents, random)
	files := map[string][]byte{}
	for _, o := range names[:certain+random.IntN(len(names)-certain+1)] {
		switch o.What {
		case 'C':
			files[o.File] = left[strconv.FormatInt(o.At, 10)]
		case 'D':
			files[o.File+"/"] = nil
		case 'U':
			delete(files, o.File)
			delete(files, o.File+"/")
		case 'R':
			rename(files, o.File, string(o.Data))
		}
	}
	return files
}

// rename renames a file, or a folder with all that is in it.
func rename(files map[string][]byte, from, to string) {
	if content, ok := files[from]; ok {
		delete(files, from)
		files[to] = content
		return
	}
	moved := map[string][]byte{}
	for path, content := range files {
		if below, ok := strings.CutPrefix(path, from+"/"); ok {
			delete(files, path)
			moved[to+"/"+below] = content
		}
	}
	for path, content := range moved {
		files[path] = content
	}
}

// WriteFiles writes files and folders into a directory that has none of them. What is all zero in them takes no room.
func WriteFiles(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	for path, content := range files {
		to := filepath.Join(dir, path)
		folder := filepath.Dir(to)
		if strings.HasSuffix(path, "/") {
			folder = to
		}
		err := os.MkdirAll(folder, 0o700)
		if err == nil && folder != to {
			err = writeSparse(to, content)
		}
		if err != nil {
			t.Fatalf("writing what a power cut has left: %v", err)
		}
	}
}

// writeSparse writes a file with holes for its zeros.
func writeSparse(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	err = f.Truncate(int64(len(content)))
	const block = 4096
	zeros := make([]byte, block)
	for at := 0; at < len(content) && err == nil; at += block {
		if b := content[at:min(len(content), at+block)]; !bytes.Equal(b, zeros[:len(b)]) {
			_, err = f.WriteAt(b, int64(at))
		}
	}
	return errors.Join(err, f.Close())
}
