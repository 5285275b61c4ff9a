package integration

import (
	"fmt"
	"os"
	"syscall"
	"testing"
)

// postgres starts a PostgreSQL of the test's own and returns it, and the endpoint by which reap reaches it.
func postgres(t *testing.T) (*daemon, string) {
	t.Helper()
	program := func(name string) string {
		return programOf(t, name, "Debian's package postgresql", "/usr/lib/postgresql/*/bin/"+name)
	}
	d := newDaemon(t, "postgresql", syscall.SIGINT) // its fast shutdown
	d.asOrdinaryUser(t)
	d.prepare(t, program("initdb"), "--pgdata", d.path("data"), "--username=reap", "--auth=trust", "--no-sync")
	d.start(t, program("postgres"), "-D", d.path("data"), "-p", d.port(t), "-c", "listen_addresses=127.0.0.1",
		"-c", "unix_socket_directories="+d.top, "-c", "fsync=off", "-c", "max_connections=200")
	return d, fmt.Sprintf("postgres://reap@%s/reap?sslmode=disable", d.address)
}

// mariadb starts a MariaDB, as MySQL.
func mariadb(t *testing.T) (*daemon, string) {
	t.Helper()
	program := func(name string) string {
		return programOf(t, name, "Debian's package mariadb-server", "/usr/sbin/"+name)
	}
	d := newDaemon(t, "mariadb", syscall.SIGTERM)
	d.asOrdinaryUser(t)
	d.prepare(t, program("mariadb-install-db"), "--no-defaults", "--datadir="+d.path("data"),
		"--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve")
	d.start(t, program("mariadbd"), "--no-defaults", "--datadir="+d.path("data"), "--port="+d.port(t), "--bind-address=127.0.0.1",
		"--socket="+d.path("s"), "--pid-file="+d.path("pid"), "--innodb-flush-log-at-trx-commit=0", "--max-connections=200")
	return d, fmt.Sprintf("mysql://root@tcp(%s)/reap", d.address)
}

// etcd starts an etcd.
func etcd(t *testing.T) (*daemon, string) {
	t.Helper()
	d := newDaemon(t, "etcd", syscall.SIGTERM)
	client, peer := "http://"+d.address, "http://"+freeAddress(t)
	d.start(t, programOf(t, "etcd", "etcd 3.7"), "--data-dir="+d.path("data"), "--unsafe-no-fsync",
		"--listen-client-urls="+client, "--advertise-client-urls="+client,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=default="+peer)
	return d, client
}

// nats starts a NATS with JetStream, which by default takes no message of more than 1 MB.
func nats(t *testing.T) (*daemon, string) {
	t.Helper()
	d := newDaemon(t, "nats", syscall.SIGTERM)
	if err := os.WriteFile(d.path("config"), []byte("max_payload: 8MB\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.start(t, programOf(t, "nats-server", "nats-server 2.15"), "--config="+d.path("config"), "--addr=127.0.0.1", "--port="+d.port(t), "--jetstream", "--store_dir="+d.path("data"))
	return d, "nats://" + d.address
}
