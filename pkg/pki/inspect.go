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

// authorityNotice is for how long before its end a CA is worth a warning: as long
// again as its last leaves are renewed for, since it takes people to replace it.
const authorityNotice = 2 * renewBefore

// Certificate is what a certificate says, and how it stands.
type Certificate struct {
	Name string `json:"name"`
	File string `json:"file"`
	// Authority is the name of the CA that has to have signed it; "" for a CA.
	Authority string   `json:"authority,omitempty"`
	Subject   string   `json:"subject"`
	Serial    string   `json:"serial"`
	SANs      []string `json:"sans,omitempty"`
	// Expires is its end. RFC 5280's "no end" is the last second of the year 9999.
	Expires time.Time `json:"expires"`
	// RemainingSeconds is how far away that is; negative once it is over.
	RemainingSeconds int64   `json:"remainingSeconds"`
	Verdict          Verdict `json:"verdict"`
}

// Endless says whether the certificate is meant to have no end.
func (c Certificate) Endless() bool { return c.Expires.Equal(noEnd) }

// Verdict is how a certificate stands.
type Verdict string

// The verdicts, the gravest first.
const (
	WrongKey       Verdict = "wrong-key"       // the key is not the certificate's
	WrongAuthority Verdict = "wrong-authority" // its CA has not signed it; or a CA's .crt does not hold it
	Expired        Verdict = "expired"
	Due            Verdict = "due" // a leaf to be renewed, or a CA that comes near its end
	OK             Verdict = "ok"
)

// Inspect reads every certificate in dir, CAs first, and judges it at the time now.
// It writes nothing. An error names a file that cannot be read.
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
			return nil, fmt.Errorf("reading certificate: %w: run this as the user that owns it; a start of the server makes anew what is missing or damaged", err)
		}
		ca := authorities[l.authority]
		if verdict == OK && cert.CheckSignatureFrom(ca) != nil {
			verdict = WrongAuthority
		}
		due := leafDue(cert, now, ca.NotAfter) || now.Add(renewBefore).After(cert.NotAfter)
		all = append(all, describe(cert, now, Certificate{Name: l.name, File: l.certFile, Authority: l.authority, Verdict: verdict}, due))
	}
	return all, nil
}

// inspectPair reads a certificate and looks whether the key fits.
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

// readCerts returns at least one certificate.
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

// describe fills in what the certificate says, and the verdict unless there is one.
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
	case due:
		c.Verdict = Due
	}
	return c
}
