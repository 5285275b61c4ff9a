package pki

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
)

// builtinHosts are the names by which every client can reach the server: from
// the machine itself, and as the kubernetes Service.
var builtinHosts = []string{
	"localhost", "127.0.0.1", "::1",
	"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
}

// dnsName accepts what crypto/x509 matches against a dNSName of RFC 5280, section
// 4.2.1.6: labels, underscores included, and a wildcard as the whole first label.
// An end that is a number is a mistyped address.
var (
	dnsName    = regexp.MustCompile(`^(\*\.)?[a-z0-9_][a-z0-9_-]*(\.[a-z0-9_][a-z0-9_-]*)*$`)
	numericEnd = regexp.MustCompile(`(^|\.)[0-9]+$`)
)

// subjectAltNames sorts hosts, the built-in ones and the machine's own name into
// DNS names and addresses, without repetition. A host name that no certificate
// can carry is left out: it is not the user's typing, and must not stop a start.
func subjectAltNames(hosts []string) (dnsNames []string, ips []net.IP, err error) {
	all := slices.Concat(builtinHosts, hosts)
	if own, err := os.Hostname(); err == nil && isDNSName(normalName(own)) {
		all = append(all, own)
	}
	for _, host := range all {
		if addr, err := netip.ParseAddr(host); err == nil {
			// A certificate has no room for a zone, and a client does not ask for it.
			ip := net.IP(addr.WithZone("").Unmap().AsSlice())
			if !slices.ContainsFunc(ips, ip.Equal) {
				ips = append(ips, ip)
			}
			continue
		}
		name := normalName(host)
		if !isDNSName(name) {
			return nil, nil, fmt.Errorf("covering host %q by the serving certificate: it is neither a DNS name nor an IP address: give it without scheme, brackets, port or mask", host)
		}
		if !slices.Contains(dnsNames, name) {
			dnsNames = append(dnsNames, name)
		}
	}
	return dnsNames, ips, nil
}

func normalName(host string) string {
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

func isDNSName(name string) bool {
	return len(name) <= 253 && dnsName.MatchString(name) && !numericEnd.MatchString(name)
}
