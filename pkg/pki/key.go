package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"

	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// newKey returns an ECDSA P-256 key, also as PEM. Such keys are small, fast on a weak
// processor, and supported by every TLS client and by token signing (ES256).
func newKey() (crypto.Signer, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	return key, keyPEM, err
}

func encodeCert(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: certutil.CertificateBlockType, Bytes: der})
}

// ensureServiceAccountKey makes the key if there is none. It never replaces a key, not
// even a damaged one: all tokens issued so far would become invalid.
func ensureServiceAccountKey(path string) error {
	keyPEM, err := readPrivate(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, keyPEM, err = newKey(); err != nil {
			return fmt.Errorf("making service-account key %s: %w", path, err)
		}
		return writeAtomic(path, keyPEM, 0o600)
	}
	if err != nil {
		return err
	}
	if _, err := keyutil.ParsePrivateKeyPEM(keyPEM); err != nil {
		return fmt.Errorf("loading service-account key %s: %w: restore it from a backup, or remove it to make a new one, which ends all tokens issued so far", path, err)
	}
	return nil
}
