package datastore

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
)

// errNoParameters is the error of a PostgreSQL endpoint that its driver does not understand. The driver's own error shows the endpoint.
var errNoParameters = errors.New("the endpoint has a parameter that PostgreSQL's driver does not understand, such as sslmode, or names a file that cannot " +
	"be read (it is not shown, since it may hold a password)")

// driversEndpoint returns the endpoint of a database elsewhere as its driver takes it. No error shows a piece of the endpoint: drivers
// put what they could not understand into theirs.
func driversEndpoint(endpoint string) (string, error) {
	endpoint = withNetwork(endpoint)
	if _, err := passwordsIn(endpoint); err != nil {
		return "", err
	}
	_, dsn, _ := strings.Cut(endpoint, "://")
	switch scheme(endpoint) {
	case "postgres", "postgresql":
		if _, err := postgresConfig(dsn); err != nil {
			if file, ok := errors.AsType[*fs.PathError](err); ok {
				return "", fmt.Errorf("reading a file that the endpoint names: %w", file)
			}
			return "", errNoParameters
		}
	case "mysql":
		if _, err := mysqlConfig(dsn); err != nil {
			return "", errNoDSN
		}
	}
	return endpoint, nil
}

// hostAndPort is what a URL has behind the user: a name or an address, and perhaps a port.
var hostAndPort = regexp.MustCompile(`^([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]+)?$`)

// withNetwork returns a MySQL endpoint with the network that its driver wants: user:password@host:3306/database, as in a URL, becomes
// user:password@tcp(host:3306)/database. The password stays as it is written.
func withNetwork(endpoint string) string {
	rest, found := strings.CutPrefix(endpoint, "mysql://")
	slash := strings.LastIndex(rest, "/")
	if !found || slash < 0 {
		return endpoint
	}
	user := strings.LastIndex(rest[:slash], "@") + 1
	host := rest[user:slash]
	if host == "tcp" || host == "unix" || !hostAndPort.MatchString(host) {
		return endpoint
	}
	return "mysql://" + rest[:user] + "tcp(" + host + ")" + rest[slash:]
}
