package server

import (
	"fmt"
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

// checkFormat returns an error if a newer build has written the data directory in a way that this one does not know. It changes nothing.
func checkFormat(dataDir string) error {
	var l layout
	if _, err := readRecord(formatFile(dataDir), &l); err != nil {
		return fmt.Errorf("reading the data directory's format: %w", err)
	}
	if l.Format > format {
		return fmt.Errorf("reap %s wrote the data directory %s in format %d, and this build knows formats up to %d: "+
			"install that version or a newer one, or restore a snapshot with 'reap snapshot restore'", l.Version, dataDir, l.Format, format)
	}
	return nil
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
