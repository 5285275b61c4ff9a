package config

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

const (
	secret   = "hunter2"
	allParts = "gc, controllers, namespace, serviceaccount, root-ca-publisher, clusterrole-aggregation, podgc, " +
		"replicationcontroller, replicaset, deployment, statefulset, daemonset, job, cronjob, ttl-after-finished, " +
		"endpoints, endpointslice, endpointslicemirroring, disruption, resourcequota, validatingadmissionpolicy-status, " +
		"persistentvolume-binder, pvc-protection, pv-protection, vac-protection, ephemeral-volume, resourceclaim, " +
		"csrapproving, csrsigning, csrcleaner, serviceaccount-token"
	sqliteElsewhere = "SQLite's file is db/state.db in the data directory, where no second server can open it: " +
		"leave out this option, and choose the data directory with --data-dir"
)

func TestBadValues(t *testing.T) {
	for _, tc := range []struct {
		option, value, want string
	}{
		{"data-dir", "/srv/what?", `"/srv/what?" contains a question mark, which SQLite cannot open: name another directory`},
		{"data-dir", "", `no directory is given, and there is no home directory to put it in: name one`},
		{"data-dir", "~/reap", `"~/reap": ~ is not expanded here: write the full path`},
		{"write-kubeconfig", "~/k", `"~/k": ~ is not expanded here: write the full path`},
		{"bind-address", "localhost", `"localhost" is not an IP address: give one such as 127.0.0.1, 0.0.0.0 or ::1`},
		{"bind-address", "[::1]", `"[::1]" is not an IP address: give one such as 127.0.0.1, 0.0.0.0 or ::1`},
		{"https-listen-port", "65536", `65536 is not a port: give 1 to 65535, or 0 for a free one`},
		{"https-listen-port", "-1", `-1 is not a port: give 1 to 65535, or 0 for a free one`},
		{"https-listen-port", "https", `"https" is not a whole number: give 1 to 65535, or 0 for a free one`},
		{"tls-san", "a_b", `"a_b" is neither a host name nor an IP address: give one such as edge-1.example.com, *.example.com or 192.0.2.7`},
		{"tls-san", "https://x", `"https://x" is neither a host name nor an IP address: give one such as edge-1.example.com, *.example.com or 192.0.2.7`},
		{"datastore-endpoint", "sqlite:///srv/" + secret + ".db", sqliteElsewhere},
		{"datastore-endpoint", "sqlite3://" + secret, sqliteElsewhere},
		{"datastore-endpoint", "sqlite", sqliteElsewhere},
		{
			"datastore-endpoint", "user:" + secret + "@tcp(db)/reap",
			`this is neither a URL nor etcd: give a URL such as postgres://user:password@host:5432/database, etcd for an etcd in the data directory, or nothing for SQLite there`,
		},
		{
			"datastore-endpoint", "postgress://user:" + secret + "@db/reap",
			`unknown datastore "postgress" (did you mean "postgres"?): give one of postgres, postgresql, mysql, http, https, unix, unixs, or etcd without an address for an etcd in the data directory`,
		},
		{
			"datastore-endpoint", "user:" + secret + "://db",
			`this is neither a URL nor etcd: give a URL such as postgres://user:password@host:5432/database, etcd for an etcd in the data directory, or nothing for SQLite there`,
		},
		{
			"datastore-endpoint", "https://user:" + secret + "@etcd-1:2379",
			`etcd takes no user in its URL: give only its address, such as https://etcd-1:2379`,
		},
		{"datastore-timeout", "-1s", `-1s is out of range: give a duration such as 10m, or 0 for ever`},
		{"gc-guard", "-1", `-1 is out of range: give a number, or 0 for no limit`},
		{"sqlite-synchronous", "FULL", `"FULL" is not accepted (did you mean "full"?): give one of normal, full`},
		{"write-kubeconfig-mode", "rw", `"rw" is not a file mode: give it in octal, such as 0600 or 0640`},
		{"write-kubeconfig-mode", "0680", `"0680" is not a file mode: give it in octal, such as 0600 or 0640`},
		{"write-kubeconfig-mode", "4755", `04755 is not a file mode: give 0000 to 0777, such as 0600 or 0640`},
		{"disable", "namespaces", `unknown part "namespaces" (did you mean "namespace"?): give one of ` + allParts},
		{"disable", "everything", `unknown part "everything": give one of ` + allParts},
		{"kube-apiserver-arg", "profiling", `"profiling" has no value: give key=value, such as profiling=false`},
		{"kube-apiserver-arg", "=x", `"" is not the name of a flag: give key=value, such as profiling=false`},
		{"kube-apiserver-arg", "a b=x", `"a b" is not the name of a flag: give key=value, such as profiling=false`},
		{"gc-workers", "1001", `1001 is out of range: give 1 to 1000, or 0 for as many as suit the machine`},
		{"gc-cycle-detection", "perhaps", `"perhaps" is neither true nor false`},
		{"gc-resync", "30s", `30s is out of range: give at least 1m, such as 1h, or 0 for never`},
		{"gc-resync", "often", `"often" is not a duration: give at least 1m, such as 1h, or 0 for never`},
		{"gc-orphan-timeout", "-1s", `-1s is out of range: give a duration such as 10m, or 0 for ever`},
		{"gc-sync-timeout", "-1s", `-1s is out of range: give a duration such as 10m, or 0 for ever`},
		{"gc-sync-timeout-per-dependent", "-1s", `-1s is out of range: give a duration such as 250ms, or 0 for no added time`},
		{"gc-sync-timeout-per-dependent", "long", `"long" is not a duration: give a duration such as 250ms, or 0 for no added time`},
		{"gc-check", "-1s", `-1s is out of range: give a duration such as 10m, or 0 for never`},
		{"gc-after-restore", "holds", `"holds" is not accepted (did you mean "hold"?): give one of hold, run`},
		{"new-store", "perhaps", `"perhaps" is neither true nor false`},
		{"snapshot-interval", "10s", `10s is out of range: give at least 1m, such as 24h, or 0 for never`},
		{"snapshot-interval", "-1h", `-1h0m0s is out of range: give at least 1m, such as 24h, or 0 for never`},
		{"snapshot-retain", "0", `0 is out of range: give 1 to 10000`},
		{"snapshot-dir", "~/s", `"~/s": ~ is not expanded here: write the full path`},
		{"gc-workers", "many", `"many" is not a whole number: give 1 to 1000, or 0 for as many as suit the machine`},
		{"gc-ignore", "Deployment", `"Deployment" is not a resource: give resource or resource.group in lower case, such as configmaps or deployments.apps`},
		{"gc-ignore", "apps/deployments", `"apps/deployments" is not a resource: give resource or resource.group in lower case, such as configmaps or deployments.apps`},
		{"log-level", "warning", `"warning" is not accepted (did you mean "warn"?): give one of trace, debug, info, warn, error`},
		{"log-format", "xml", `"xml" is not accepted: give one of text, logfmt, json`},
	} {
		t.Run(tc.option+"="+tc.value, func(t *testing.T) {
			_, _, err := load(t, layers{args: []string{"--" + tc.option + "=" + tc.value}})
			wantError(t, err, "--"+tc.option+": "+tc.want)

			if tc.value == "" {
				return // an empty environment variable counts as not set
			}
			env := "REAP_" + strings.ToUpper(strings.ReplaceAll(tc.option, "-", "_"))
			_, _, err = load(t, layers{env: map[string]string{env: tc.value}})
			wantError(t, err, "--"+tc.option+" (from $"+env+"): "+tc.want)

			var in layers
			file("config.yaml")(&in, tc.option, tc.value)
			_, dir, err := load(t, in)
			wantError(t, err, "--"+tc.option+" (from "+dir+"/config.yaml:1): "+tc.want)
		})
	}
}

// If several files add to a list, the error names the file with the invalid element.
func TestBadElementNamesItsOwnFile(t *testing.T) {
	_, dir, err := load(t, layers{files: map[string]string{
		"config.yaml": "disable: [gc]", "config.yaml.d/1.yaml": "\ndisable+: [nope]", "config.yaml.d/2.yaml": "disable+: [namespace]",
	}})
	if prefix := "--disable (from " + dir + "/config.yaml.d/1.yaml:2): "; err == nil || !strings.HasPrefix(err.Error(), prefix) {
		t.Errorf("got error %v, want one that begins with %s", err, prefix)
	}
}

func TestGoodValues(t *testing.T) {
	for _, arg := range []string{
		"--bind-address=::", "--bind-address=0.0.0.0",
		"--https-listen-port=65535",
		"--tls-san=*.example.com", "--tls-san=2001:db8::1", "--tls-san=192.0.2.7",
		"--datastore-endpoint=",
		"--datastore-endpoint=https://etcd-1:2379,https://etcd-2:2379",
		"--write-kubeconfig=", "--write-kubeconfig-mode=0",
		"--disable=", "--disable=gc,controllers",
		"--gc-ignore=events,events.events.k8s.io",
		"--kube-apiserver-arg=feature-gates=A=true,B=false",
	} {
		s, _, err := load(t, layers{args: []string{arg}})
		if err == nil {
			err = s.Validate()
		}
		if err != nil {
			t.Errorf("%s: %v", arg, err)
		}
	}
}

func TestValidateChecksWhatWasNotLoaded(t *testing.T) {
	good := DefaultServer()
	good.DataDir = "/srv/reap"
	if err := good.Validate(); err != nil {
		t.Fatalf("the defaults: %v", err)
	}
	for option, spoil := range map[string]func(*Server){
		"data-dir":                      func(s *Server) { s.DataDir = "relative" },
		"bind-address":                  func(s *Server) { s.BindAddress = "" },
		"https-listen-port":             func(s *Server) { s.HTTPSListenPort = -1 },
		"tls-san":                       func(s *Server) { s.TLSSANs = []string{"good", "b/d"} },
		"datastore-endpoint":            func(s *Server) { s.DatastoreEndpoint = secret },
		"datastore-reserve":             func(s *Server) { s.DatastoreReserve = -1 },
		"datastore-timeout":             func(s *Server) { s.DatastoreTimeout = -time.Second },
		"sqlite-synchronous":            func(s *Server) { s.SQLiteSynchronous = "" },
		"write-kubeconfig":              func(s *Server) { s.WriteKubeconfig = "relative" },
		"write-kubeconfig-mode":         func(s *Server) { s.WriteKubeconfigMode = os.ModeDir },
		"disable":                       func(s *Server) { s.Disable = []string{"x"} },
		"kube-apiserver-arg":            func(s *Server) { s.KubeAPIServerArgs = []string{"x"} },
		"gc-workers":                    func(s *Server) { s.GC.Workers = -1 },
		"gc-resync":                     func(s *Server) { s.GC.Resync = time.Second },
		"gc-sync-timeout":               func(s *Server) { s.GC.SyncTimeout = -time.Second },
		"gc-sync-timeout-per-dependent": func(s *Server) { s.GC.SyncTimeoutPerDependent = -time.Second },
		"gc-orphan-timeout":             func(s *Server) { s.GC.OrphanTimeout = -time.Second },
		"gc-after-restore":              func(s *Server) { s.GC.AfterRestore = "" },
		"accept-revision":               func(s *Server) { s.AcceptRevision = "-1" },
		"snapshot-interval":             func(s *Server) { s.Snapshot.Interval = time.Second },
		"snapshot-retain":               func(s *Server) { s.Snapshot.Retain = 0 },
		"snapshot-dir":                  func(s *Server) { s.Snapshot.Dir = "relative" },
		"gc-check":                      func(s *Server) { s.GC.Check = -time.Second },
		"gc-guard":                      func(s *Server) { s.GC.Guard = -1 },
		"gc-ignore":                     func(s *Server) { s.GC.Ignore = []string{""} },
		"log-level":                     func(s *Server) { s.Log.Level = "" },
		"log-format":                    func(s *Server) { s.Log.Format = "" },
	} {
		bad := good
		spoil(&bad)
		err := bad.Validate()
		if err == nil || !strings.HasPrefix(err.Error(), "--"+option+": ") || strings.Contains(err.Error(), secret) {
			t.Errorf("spoilt %s: got error %v", option, err)
		}
	}
}

// Validating comes before anything is done: it must not make the directories that it hears of.
func TestLoadingChangesNothing(t *testing.T) {
	dir := t.TempDir()
	s, _, err := load(t, layers{args: []string{"--data-dir", dir + "/data", "--write-kubeconfig", dir + "/k/config"}})
	if err = errors.Join(err, s.Validate()); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("the directory holds %v (%v), want nothing", entries, err)
	}
}
