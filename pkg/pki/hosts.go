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

// builtinHosts are names that every serving certificate covers: those of the
// machine itself and of the kubernetes Service.
var builtinHosts = []string{
	"localhost", "127.0.0.1", "::1",
	"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
}

// dnsName accepts what crypto/x509 matches against a dNSName of RFC 5280, section
// 4.2.1.6: labels, underscores included, and a wildcard as the whole first label.
// A name that ends in a number is a mistyped address.
var (
	dnsName    = regexp.MustCompile(`^(\*\.)?[a-z0-9_][a-z0-9_-]*(\.[a-z0-9_][a-z0-9_-]*)*$`)
	numericEnd = regexp.MustCompile(`(^|\.)[0-9]+$`)
)

// subjectAltNames splits hosts, the built-in ones and the machine's host name into
// distinct DNS names and addresses. The machine's name is left out if no
// certificate can carry it: the user did not type it, and it must not prevent a
// start.
func subjectAltNames(hosts []string) (dnsNames []string, ips []net.IP, err error) {
	all := slices.Concat(builtinHosts, hosts)
	if own, err := os.Hostname(); err == nil && isDNSName(normalName(own)) {
		all = append(all, own)
	}
	for _, host := range all {
		if addr, err := netip.ParseAddr(host); err == nil {
			// Certificates carry no zone, and clients do not check it.
			ip := net.IP(addr.WithZone("").Unmap().AsSlice())
			if !slices.ContainsFunc(ips, ip.Equal) {
				ips = append(ips, ip)
			}
			continue
		}
		name := normalName(host)
		if !isDNSName(name) {
			return nil, nil, fmt.Errorf("adding host %q to the serving certificate: it is neither a DNS name nor an IP address: give it without scheme, brackets, port or mask", host)
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
