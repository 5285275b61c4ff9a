package databases

import (
	"fmt"
	"strings"
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

// EtcdTool returns etcdctl or etcdutl.
func EtcdTool(t *testing.T, name string) string {
	t.Helper()
	return programOf(t, name, "etcd 3.7's "+name)
}

// EtcdCluster starts an etcd of three members, which begin with what the snapshot in this file holds, as etcdutl restores it. Every client is to
// list anew. It returns the members and the endpoints for reap.
func EtcdCluster(t *testing.T, snapshot string) (members [3]*Server, endpoints string) {
	t.Helper()
	var peers, named, clients []string
	for i := range members {
		members[i] = newServer(t, fmt.Sprintf("etcd-%d", i+1), syscall.SIGTERM)
		peers = append(peers, "http://"+freeAddress(t))
		named = append(named, members[i].name+"="+peers[i])
		clients = append(clients, "http://"+members[i].address)
	}
	cluster := "--initial-cluster=" + strings.Join(named, ",")
	for i, d := range members {
		d.Prepare(t, EtcdTool(t, "etcdutl"), "snapshot", "restore", snapshot, "--data-dir="+d.path("data"), "--name="+d.name, cluster,
			"--initial-advertise-peer-urls="+peers[i], "--bump-revision=1000000000", "--mark-compacted")
		d.program = programOf(t, "etcd", "etcd 3.7")
		d.args = []string{"--data-dir=" + d.path("data"), "--name=" + d.name, "--unsafe-no-fsync", cluster,
			"--listen-client-urls=" + clients[i], "--advertise-client-urls=" + clients[i],
			"--listen-peer-urls=" + peers[i], "--initial-advertise-peer-urls=" + peers[i]}
		d.begin(t) // it takes clients when most members are there
	}
	for _, d := range members {
		d.awaitClients(t)
	}
	return members, strings.Join(clients, ",")
}

// Etcd starts an etcd.
func Etcd(t *testing.T) (*Server, string) {
	t.Helper()
	return EtcdWithQuota(t, 0)
}

// EtcdWithQuota starts an etcd whose database may take so many bytes; 0 is its default, 2 GiB.
func EtcdWithQuota(t *testing.T, bytes int) (*Server, string) {
	t.Helper()
	d := newServer(t, "etcd", syscall.SIGTERM)
	client, peer := "http://"+d.address, "http://"+freeAddress(t)
	d.run(t, programOf(t, "etcd", "etcd 3.7"), "--data-dir="+d.path("data"), "--unsafe-no-fsync", fmt.Sprintf("--quota-backend-bytes=%d", bytes),
		"--listen-client-urls="+client, "--advertise-client-urls="+client,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=default="+peer)
	return d, client
}
