package pki

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// modes maps the suffixes of file names in a PKI directory to file modes.
var modes = map[string]os.FileMode{".pem": 0o600, ".key": 0o600, ".crt": 0o644}

// Contents returns the files of a PKI directory by name, including private keys. The caller holds Lock, so that keys
// and certificates match.
func Contents(dir string) (map[string][]byte, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("reading PKI directory: %w", err)
	}
	files := map[string][]byte{}
	for _, e := range entries {
		if _, ours := modes[filepath.Ext(e.Name())]; !ours || e.IsDir() {
			continue
		}
		if files[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			return nil, fmt.Errorf("reading PKI directory: %w", err)
		}
	}
	return files, nil
}

// Fill creates a directory and writes the files returned by Contents into it, each with its mode. It returns when all
// files are on the disk. A name that no PKI file can have is an error, and nothing is written.
func Fill(dir string, files map[string][]byte) error {
	var all []newFile
	for _, name := range slices.Sorted(maps.Keys(files)) {
		mode, ours := modes[filepath.Ext(name)]
		if !ours || filepath.Base(name) != name || strings.HasPrefix(name, ".") {
			return fmt.Errorf("writing PKI directory %s: %q is not the name of a certificate or key", dir, name)
		}
		all = append(all, newFile{filepath.Join(dir, name), files[name], mode})
	}
	if err := ensurePrivateDir(dir); err != nil {
		return err
	}
	if len(all) == 0 {
		return nil
	}
	return replace(all...)
}
