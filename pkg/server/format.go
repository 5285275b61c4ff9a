package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// format is the number of the data directory's layout and of how the database in it is to be read. It grows when an older build
// could not go on with what this one writes.
const format = 1

// layout is the content of the format file. A data directory of a build from before the file has none: its format is 1.
type layout struct {
	Format  int    `json:"format"`
	Version string `json:"version"` // of the build that wrote it first
}

func formatFile(dataDir string) string { return filepath.Join(dataDir, "format.json") }

// CheckFormat returns an error if a newer build has written the data directory in a way that this one does not know, or if the file does
// not say so: what is not known must not be taken for the oldest. It changes nothing. Every command that writes into a data directory
// calls it before, except a restore, which replaces everything.
func CheckFormat(dataDir string) error {
	var l layout
	raw, err := os.ReadFile(formatFile(dataDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the data directory's format: %w", err)
	}
	if err := json.Unmarshal(raw, &l); err != nil || l.Format < 1 {
		return fmt.Errorf("%s is damaged: it should hold the number of the data directory's format, from 1 on, and the version that wrote it. "+
			"The database may be damaged too: see with 'reap db check', then restore a snapshot with 'reap snapshot restore', "+
			"or remove the file if no build newer than this one has used the directory", formatFile(dataDir))
	}
	if l.Format <= format {
		return nil
	}
	by, install := "reap "+l.Version, "that version or a newer one"
	if l.Version == "" {
		by, install = "a newer reap", "the newest version"
	}
	return fmt.Errorf("%s wrote the data directory %s in format %d, and this build knows formats up to %d: "+
		"install %s, or restore a snapshot with 'reap snapshot restore'", by, dataDir, l.Format, format, install)
}

// writeFormat records that the data directory has this build's format from now on; version is the build's.
func writeFormat(dataDir, version string) error {
	var l layout
	_, err := readRecord(formatFile(dataDir), &l)
	if err == nil && l.Format != format {
		err = writeRecord(formatFile(dataDir), layout{format, version})
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", formatFile(dataDir), err)
	}
	return nil
}
