package databases

import (
	"fmt"
	"syscall"
	"testing"
)

// Postgres starts a PostgreSQL of the test's own and returns it, and the endpoint by which reap reaches it.
func Postgres(t *testing.T) (*Server, string) {
	t.Helper()
	program := func(name string) string {
		return programOf(t, name, "Debian's package postgresql", "/usr/lib/postgresql/*/bin/"+name)
	}
	d := newServer(t, "postgresql", syscall.SIGINT) // its fast shutdown
	d.asOrdinaryUser(t)
	d.Prepare(t, program("initdb"), "--pgdata", d.path("data"), "--username=reap", "--auth=trust", "--no-sync")
	d.ready = []string{program("pg_isready"), "-h", "127.0.0.1", "-p", d.port(t)}
	d.run(t, program("postgres"), "-D", d.path("data"), "-p", d.port(t), "-c", "listen_addresses=127.0.0.1",
		"-c", "unix_socket_directories="+d.top, "-c", "fsync=off", "-c", "max_connections=200")
	return d, fmt.Sprintf("postgres://reap@%s/reap?sslmode=disable", d.address)
}

// MariaDB starts a MariaDB, as MySQL.
func MariaDB(t *testing.T) (*Server, string) {
	t.Helper()
	program := func(name string) string {
		return programOf(t, name, "Debian's package mariadb-server", "/usr/sbin/"+name)
	}
	d := newServer(t, "mariadb", syscall.SIGTERM)
	d.asOrdinaryUser(t)
	d.Prepare(t, program("mariadb-install-db"), "--no-defaults", "--datadir="+d.path("data"),
		"--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve")
	d.run(t, program("mariadbd"), "--no-defaults", "--datadir="+d.path("data"), "--port="+d.port(t), "--bind-address=127.0.0.1",
		"--socket="+d.path("s"), "--pid-file="+d.path("pid"), "--innodb-flush-log-at-trx-commit=0", "--max-connections=200")
	return d, fmt.Sprintf("mysql://root@tcp(%s)/reap", d.address)
}

// Etcd starts an etcd.
func Etcd(t *testing.T) (*Server, string) {
	t.Helper()
	d := newServer(t, "etcd", syscall.SIGTERM)
	client, peer := "http://"+d.address, "http://"+freeAddress(t)
	d.run(t, programOf(t, "etcd", "etcd 3.7"), "--data-dir="+d.path("data"), "--unsafe-no-fsync",
		"--listen-client-urls="+client, "--advertise-client-urls="+client,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=default="+peer)
	return d, client
}
