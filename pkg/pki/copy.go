package pki

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// modes are those of the files of a PKI directory, by the ends of their names.
var modes = map[string]os.FileMode{".pem": 0o600, ".key": 0o600, ".crt": 0o644}

// Contents returns the files of a PKI directory by name, keys among them. The caller holds Lock, so that they fit each
// other.
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

// Fill writes what Contents has returned into a directory, which is made, each file with its mode, and returns when all
// is on the disk. A name that cannot be that of a PKI file is an error before anything is written.
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
