package pki

import (
	"crypto/tls"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/util/keyutil"
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

// Check returns an error unless the files returned by Contents are those of a server: nothing is missing that a start could not make
// anew without changing whom clients trust, and every key fits its certificate. It does not look at when they expire.
func Check(files map[string][]byte) error {
	for _, name := range authorityNames {
		if err := checkPair(files, name+".pem", name+".pem"); err != nil {
			return err
		}
		if err := checkBundle(files, name); err != nil {
			return err
		}
	}
	for _, l := range leaves("", nil, nil) {
		if _, held := files[l.certFile]; held {
			if err := checkPair(files, l.certFile, l.keyFile); err != nil {
				return err
			}
		}
	}
	key := filesIn("").ServiceAccountKey
	if _, err := keyutil.ParsePrivateKeyPEM(files[key]); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

// checkPair returns an error unless there is a certificate and its key.
func checkPair(files map[string][]byte, cert, key string) error {
	if _, err := parseCerts(cert, files[cert]); err != nil {
		return err
	}
	if _, err := tls.X509KeyPair(files[cert], files[key]); err != nil {
		return fmt.Errorf("%s does not fit %s: %w", key, cert, err)
	}
	return nil
}

// checkBundle returns an error if what clients are told to trust leaves a CA out. A start makes a missing file.
func checkBundle(files map[string][]byte, name string) error {
	raw, held := files[name+".crt"]
	if !held {
		return nil
	}
	published, err := parseCerts(name+".crt", raw)
	if err != nil {
		return err
	}
	own, err := parseCerts(name+".pem", files[name+".pem"])
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(published, own[0].Equal) {
		return fmt.Errorf("%s.crt does not contain the certificate of %s.pem", name, name)
	}
	return nil
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
