package datastore

import (
	"strings"
	"testing"
)

func TestEndpointOfMySQLMayBeAURL(t *testing.T) {
	for endpoint, want := range map[string]string{
		"mysql://user:hunter2@host:3306/db":               "mysql://user:hunter2@tcp(host:3306)/db",
		"mysql://user:p@s:s/w@127.0.0.1:3306/db?tls=true": "mysql://user:p@s:s/w@tcp(127.0.0.1:3306)/db?tls=true",
		"mysql://user@host/db":                            "mysql://user@tcp(host)/db",
		"mysql://host/":                                   "mysql://tcp(host)/",
		"mysql://user:hunter2@[::1]:3306/db":              "mysql://user:hunter2@tcp([::1]:3306)/db",
		"mysql://user:hunter2@tcp(host:3306)/db":          "mysql://user:hunter2@tcp(host:3306)/db",
		"mysql://user@tcp/db":                             "mysql://user@tcp/db",
		"mysql://user@unix(/run/mysqld.sock)/db":          "mysql://user@unix(/run/mysqld.sock)/db",
		"mysql:///db":                                     "mysql:///db",
		"postgres://user:hunter2@host:5432/db":            "postgres://user:hunter2@host:5432/db",
		"https://etcd-1:2379,https://etcd-2:2379":         "https://etcd-1:2379,https://etcd-2:2379",
	} {
		if got, err := driversEndpoint(endpoint); err != nil || got != want {
			t.Errorf("%s becomes %s, not %s (%v)", endpoint, got, want, err)
		}
	}
}

// TestNoErrorShowsAPieceOfAnEndpoint that a driver does not understand.
func TestNoErrorShowsAPieceOfAnEndpoint(t *testing.T) {
	for _, endpoint := range []string{
		"mysql://user:hunter2@ho st:3306/db", "mysql://user:hunter2@udp:host/db", "mysql://user:hunter2@tcp(host:3306/db", "mysql://user:hunter2@tcp(host)/db?tls=hunter2",
		"mysql://host", "postgres://user:hunter2@host/db?sslmode=hunter2", "postgres://user:hunter2@host/db?connect_timeout=hunter2",
	} {
		_, err := driversEndpoint(endpoint)
		if err == nil || strings.Contains(err.Error(), "hunter2") || strings.Contains(strings.TrimPrefix(err.Error(), errNoDSN.Error()), "host") {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
}

// TestMissingFileOfAnEndpointIsNamed: that is no secret, and all that helps.
func TestMissingFileOfAnEndpointIsNamed(t *testing.T) {
	const file = "/nowhere/ca.pem"
	if _, err := driversEndpoint("postgres://user:hunter2@host/db?sslmode=verify-full&sslrootcert=" + file); err == nil || !strings.Contains(err.Error(), file) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v", err)
	}
}
