package pki

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	certutil "k8s.io/client-go/util/cert"
)

const (
	serverCA = "server-ca"
	clientCA = "client-ca"
	// frontProxyCA must differ from clientCA: holders of its certificates may
	// impersonate any user by request header.
	frontProxyCA = "front-proxy-ca"
)

// authorityNames are all CAs, in the order in which they are made.
var authorityNames = []string{serverCA, clientCA, frontProxyCA}

// authority is a CA that can sign. Immutable.
type authority struct {
	certFile string
	// signerFile holds cert and no other certificate.
	signerFile string
	cert       *x509.Certificate
	key        crypto.Signer
}

// ensureAuthority loads the CA called name, or makes it if neither of its files
// exists. Clients in the field trust a CA by its certificate, so a damaged CA or a
// lost key is an error and the CA is not replaced.
func ensureAuthority(dir, name string) (authority, error) {
	pairFile := filepath.Join(dir, name+".pem")
	certFile := filepath.Join(dir, name+".crt")

	pair, err := readPrivate(pairFile)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(certFile); err == nil {
			return authority{}, fmt.Errorf("loading CA: %s, which holds the key of %s, is missing: restore it from a backup, or remove %[2]s to start a new CA that every client must be given", pairFile, certFile)
		}
		if pair, err = newAuthority(name); err != nil {
			return authority{}, fmt.Errorf("making CA %s: %w", pairFile, err)
		}
		err = writeAtomic(pairFile, pair, 0o600)
	}
	if err != nil {
		return authority{}, err
	}

	ca, err := parseAuthority(pair)
	if err != nil {
		return authority{}, fmt.Errorf("loading CA %s: %w: restore it from a backup, or remove it and %s to start a new CA that every client must be given", pairFile, err, certFile)
	}
	ca.certFile = certFile
	if err := publish(ca, pairFile); err != nil {
		return ca, err
	}
	ca.signerFile, err = ensureSignerFile(ca, pairFile, pair)
	return ca, err
}

// ensureSignerFile returns a file with the CA's certificate and no other: Kubernetes' signer of CertificateSigningRequests
// refuses a file with several. The published file may hold further CAs, so it is the file of the pair; if that holds a
// chain, a copy of its first certificate.
func ensureSignerFile(ca authority, pairFile string, pair []byte) (string, error) {
	if certs, err := parseCerts(pairFile, pair); err != nil || len(certs) == 1 {
		return pairFile, err
	}
	path, want := strings.TrimSuffix(pairFile, ".pem")+"-signer.crt", encodeCert(ca.cert.Raw)
	if there, err := os.ReadFile(path); err == nil && bytes.Equal(there, want) {
		return path, nil
	}
	return path, writeAtomic(path, want, 0o644)
}

// publish writes the CA's certificate to the file that clients and kube-apiserver
// read. If the file exists, publish checks that it holds the certificate.
func publish(ca authority, pairFile string) error {
	published, err := os.ReadFile(ca.certFile)
	if errors.Is(err, fs.ErrNotExist) {
		return writeAtomic(ca.certFile, encodeCert(ca.cert.Raw), 0o644)
	}
	if err != nil {
		return fmt.Errorf("reading CA certificate: %w: make %s a file that the user that runs reap can read", err, ca.certFile)
	}
	trusted, err := certutil.ParseCertsPEM(published)
	if err != nil || !slices.ContainsFunc(trusted, ca.cert.Equal) {
		return fmt.Errorf("loading CA: %s does not hold the certificate of %s: restore both from one backup, or remove %[1]s if %[2]s is the CA that clients trust", ca.certFile, pairFile)
	}
	return nil
}

// parseAuthority ignores the CA's dates: a wrong clock must not keep a device from
// starting, and with a right clock clients report that the CA has expired.
func parseAuthority(pair []byte) (authority, error) {
	parsed, err := tls.X509KeyPair(pair, pair)
	if err != nil {
		return authority{}, err
	}
	key, ok := parsed.PrivateKey.(crypto.Signer)
	// Without this usage no leaf would verify, and all leaves would be replaced at each start.
	usage := parsed.Leaf.KeyUsage
	if !ok || !parsed.Leaf.IsCA || usage != 0 && usage&x509.KeyUsageCertSign == 0 {
		return authority{}, errors.New("its certificate may not sign others")
	}
	return authority{cert: parsed.Leaf, key: key}, nil
}

// newAuthority returns the key and the certificate of a new CA as PEM. The
// subject contains no date and no serial number: both would come from a clock that
// may be wrong.
func newAuthority(name string) ([]byte, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "reap-" + name},
		NotBefore:             firstInstant,
		NotAfter:              noEnd,
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true, // signs leaves alone
		KeyUsage:              x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return append(keyPEM, encodeCert(der)...), nil
}
