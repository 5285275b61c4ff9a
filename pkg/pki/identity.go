package pki

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/client-go/util/keyutil"
)

// serviceAccounts stands for the key of service accounts in an Identity.
const serviceAccounts = "service-account"

// Identity says whose certificates and tokens a server issues and trusts: by the name of each CA, and of the key of service
// accounts. It holds no secret.
type Identity map[string]Trust

// Trust holds fingerprints (SHA-256) of certificates or public keys.
type Trust struct {
	Signs  string   `json:"signs"`  // of the one that signs
	Trusts []string `json:"trusts"` // of all that are trusted, sorted
}

// ReadIdentity returns the identity of a PKI directory, without what Ensure would still make.
func ReadIdentity(dir string) (Identity, error) {
	i := Identity{}
	for _, name := range authorityNames {
		own, err := readCerts(filepath.Join(dir, name+".pem"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading CA: %w", err)
		}
		trusted, err := readCerts(filepath.Join(dir, name+".crt"))
		if errors.Is(err, fs.ErrNotExist) {
			trusted = own[:1]
		} else if err != nil {
			return nil, fmt.Errorf("reading CA certificate: %w", err)
		}
		i[name] = newTrust(own[0].Raw, trusted, func(c *x509.Certificate) []byte { return c.Raw })
	}
	raw, err := os.ReadFile(filesIn(dir).ServiceAccountKey)
	if errors.Is(err, fs.ErrNotExist) {
		return i, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading service-account key: %w", err)
	}
	parsed, err := keyutil.ParsePublicKeysPEM(raw) // also those of private keys; the first one signs
	if err != nil {
		return nil, fmt.Errorf("reading service-account key %s: %w", filesIn(dir).ServiceAccountKey, err)
	}
	var keys [][]byte
	for _, key := range parsed {
		der, err := x509.MarshalPKIXPublicKey(key)
		if err != nil {
			return nil, fmt.Errorf("reading service-account key %s: %w", filesIn(dir).ServiceAccountKey, err)
		}
		keys = append(keys, der)
	}
	i[serviceAccounts] = newTrust(keys[0], keys, func(der []byte) []byte { return der })
	return i, nil
}

func newTrust[T any](signs []byte, trusted []T, der func(T) []byte) Trust {
	t := Trust{Signs: fingerprint(signs)}
	for _, one := range trusted {
		t.Trusts = append(t.Trusts, fingerprint(der(one)))
	}
	slices.Sort(t.Trusts)
	t.Trusts = slices.Compact(t.Trusts)
	return t
}

func fingerprint(der []byte) string {
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}

// Complete reports whether Ensure would make none of it.
func (i Identity) Complete() bool { return len(i) == len(authorityNames)+1 }

// Differs returns the names by which two servers would refuse each other's certificates or tokens, or of which one of them has none.
func (i Identity) Differs(other Identity) (names []string) {
	for _, name := range append(slices.Clone(authorityNames), serviceAccounts) {
		a, b := i[name], other[name]
		if !slices.Contains(a.Trusts, b.Signs) || !slices.Contains(b.Trusts, a.Signs) {
			names = append(names, name)
		}
	}
	return names
}
