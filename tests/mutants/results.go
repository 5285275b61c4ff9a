package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// resultsFile holds the results of the last run, below the top of the checkout, where git ignores it.
const resultsFile = "bin/mutants.json"

// results are those of the last run, one a line as it came.
type results struct {
	known map[string]result
	file  *os.File
}

type keptResult struct {
	Mutant string // its digest
	Name   string
	result
}

// openResults begins a new run, or goes on with the one before.
func openResults(resume bool) (*results, error) {
	k := &results{known: map[string]result{}}
	mode := os.O_TRUNC
	if resume {
		mode = os.O_APPEND
		old, err := os.Open(resultsFile)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if err == nil {
			for lines := bufio.NewScanner(old); lines.Scan(); {
				var r keptResult
				if json.Unmarshal(lines.Bytes(), &r) == nil { // the last line may be cut off
					k.known[r.Mutant] = r.result
				}
			}
			if err := old.Close(); err != nil {
				return nil, err
			}
		}
	}
	if err := os.MkdirAll(filepath.Dir(resultsFile), 0o755); err != nil {
		return nil, err
	}
	var err error
	k.file, err = os.OpenFile(resultsFile, os.O_CREATE|os.O_WRONLY|mode, 0o644)
	return k, err
}

// of returns a mutant's result, if neither its file nor its tests have changed since.
func (k *results) of(m *mutant) (r result, ok bool) {
	r, ok = k.known[m.digest()]
	return r, ok
}

func (k *results) keep(m *mutant, r result) error {
	raw, err := json.Marshal(keptResult{m.digest(), m.name, r})
	if err != nil {
		return err
	}
	_, err = k.file.Write(append(raw, '\n'))
	return err
}

func (k *results) close() { _ = k.file.Close() }

// digest stands for the mutant, its file, and the test files that should notice it.
func (m *mutant) digest() string {
	h := sha256.New()
	write := func(b []byte) {
		sum := sha256.Sum256(b)
		h.Write(sum[:])
	}
	write(m.source)
	for _, t := range m.tests {
		write([]byte(t.pkg + " " + t.run))
		files, _ := filepath.Glob(filepath.Join(t.pkg, "*_test.go")) // fails for bad patterns only
		for _, f := range files {
			b, _ := os.ReadFile(f) // one that cannot be read fails the build
			write(b)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}
