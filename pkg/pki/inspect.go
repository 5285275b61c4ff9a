package pki

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	certutil "k8s.io/client-go/util/cert"
)

// authorityNotice is how long before a CA expires a warning begins. It is twice the
// renewal time of leaves, because people have to replace the CA.
const authorityNotice = 2 * renewBefore

// Certificate describes a certificate and its state.
type Certificate struct {
	Name string `json:"name"`
	File string `json:"file"`
	// Authority is the name of the CA that must have signed the certificate; "" for a CA.
	Authority string   `json:"authority,omitempty"`
	Subject   string   `json:"subject"`
	Serial    string   `json:"serial"`
	SANs      []string `json:"sans,omitempty"`
	// Expires is NotAfter. RFC 5280 writes "no end" as the last second of the year 9999.
	Expires time.Time `json:"expires"`
	// RemainingSeconds is the time until Expires; negative after it.
	RemainingSeconds int64   `json:"remainingSeconds"`
	Verdict          Verdict `json:"verdict"`
}

// Endless reports whether the certificate has no end, in the sense of RFC 5280.
func (c Certificate) Endless() bool { return c.Expires.Equal(noEnd) }

// Verdict is the state of a certificate.
type Verdict string

// The verdicts, the most severe first.
const (
	WrongKey       Verdict = "wrong-key"       // the key does not match the certificate
	WrongAuthority Verdict = "wrong-authority" // its CA did not sign it; or a CA's .crt does not contain it
	Expired        Verdict = "expired"
	NotYetValid    Verdict = "not-yet-valid" // its time begins in the future
	Due            Verdict = "due"           // a leaf that should be renewed, or a CA that expires soon
	OK             Verdict = "ok"
)

// Inspect reads all certificates in dir, CAs first, and returns their verdicts at the
// time now. It writes nothing. An error names a file that cannot be read.
func Inspect(dir string, now time.Time) ([]Certificate, error) {
	var all []Certificate
	authorities := map[string]*x509.Certificate{}
	for _, name := range authorityNames {
		pairFile, certFile := filepath.Join(dir, name+".pem"), filepath.Join(dir, name+".crt")
		own, verdict, err := inspectPair(pairFile, pairFile)
		if err != nil {
			return nil, fmt.Errorf("reading CA: %w", err)
		}
		published, err := readCerts(certFile)
		if err != nil {
			return nil, fmt.Errorf("reading CA certificate: %w", err)
		}
		if verdict == OK && !slices.ContainsFunc(published, own.Equal) {
			verdict = WrongAuthority
		}
		authorities[name] = own
		all = append(all, describe(own, now, Certificate{Name: name, File: certFile, Verdict: verdict}, now.Add(authorityNotice).After(own.NotAfter)))
	}
	for _, l := range leaves(dir, nil, nil) {
		cert, verdict, err := inspectPair(l.certFile, l.keyFile)
		if err != nil {
			return nil, fmt.Errorf("reading certificate: %w: run this as the user that owns the file; a start of the server replaces missing and damaged files", err)
		}
		ca := authorities[l.authority]
		if verdict == OK && cert.CheckSignatureFrom(ca) != nil {
			verdict = WrongAuthority
		}
		due := leafDue(cert, now, ca) || now.Add(renewBefore).After(cert.NotAfter)
		all = append(all, describe(cert, now, Certificate{Name: l.name, File: l.certFile, Authority: l.authority, Verdict: verdict}, due))
	}
	return all, nil
}

// inspectPair reads a certificate and checks that the key matches it.
func inspectPair(certFile, keyFile string) (*x509.Certificate, Verdict, error) {
	cert, err := os.ReadFile(certFile)
	if err != nil {
		return nil, "", err
	}
	key, err := os.ReadFile(keyFile)
	if err != nil {
		return nil, "", err
	}
	certs, err := parseCerts(certFile, cert)
	if err != nil {
		return nil, "", err
	}
	if _, err := tls.X509KeyPair(cert, key); err != nil {
		return certs[0], WrongKey, nil
	}
	return certs[0], OK, nil
}

// readCerts returns at least one certificate, or an error.
func readCerts(path string) ([]*x509.Certificate, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parseCerts(path, raw)
}

func parseCerts(path string, raw []byte) ([]*x509.Certificate, error) {
	certs, err := certutil.ParseCertsPEM(raw)
	if err != nil {
		return nil, fmt.Errorf("%s holds no certificate: %w", path, err)
	}
	return certs, nil
}

// describe fills in the certificate's fields, and the verdict if it is still OK.
func describe(cert *x509.Certificate, now time.Time, c Certificate, due bool) Certificate {
	c.Subject = cert.Subject.String()
	c.Serial = cert.SerialNumber.Text(16)
	c.SANs = slices.Clone(cert.DNSNames)
	for _, ip := range cert.IPAddresses {
		c.SANs = append(c.SANs, ip.String())
	}
	c.Expires = cert.NotAfter
	c.RemainingSeconds = cert.NotAfter.Unix() - now.Unix()
	switch {
	case c.Verdict != OK:
	case now.After(cert.NotAfter):
		c.Verdict = Expired
	case notYetValid(cert, now):
		c.Verdict = NotYetValid
	case due:
		c.Verdict = Due
	}
	return c
}
