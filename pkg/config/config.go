// Package config holds the options of reap's commands: their defaults, the layers they are read from,
// and what is accepted for each.
//
// An option is given on the command line, in the environment or in a YAML file, and the first of
// these that gives it wins:
//
//	flag  >  REAP_… environment  >  <file>.d/*.yaml, last first  >  <file>  >  default
//
// Every error is one sentence that names the flag, the place it came from when that is not the command
// line, and what is accepted instead. Loading and validating read files and change nothing. No error
// holds the datastore endpoint, which may carry a password.
package config

import (
	"os"
	"slices"
	"strings"
	"time"
)

// Server is what `reap server` runs with. Start from DefaultServer: the zero value is not valid.
type Server struct {
	// Version is that of the binary, for the ready file; the command sets it.
	Version string
	// DataDir holds everything the server keeps: database, keys, kubeconfig. Absolute.
	DataDir string
	// BindAddress is the IP address the API server listens on.
	BindAddress string
	// HTTPSListenPort is the port it listens on; 0 picks a free one.
	HTTPSListenPort int
	// TLSSANs are names and addresses for the serving certificate, beyond those the server knows itself.
	TLSSANs []string
	// DatastoreEndpoint is a kine endpoint; "" is SQLite in the data directory. It may hold a password:
	// never print it.
	DatastoreEndpoint string
	// SQLiteSynchronous is "normal" or "full", as in SQLite's pragma.
	SQLiteSynchronous string
	// DatastoreReserve is how many MiB of the disk are kept for deletions when it is full; 0 is none.
	DatastoreReserve int
	// WriteKubeconfig is one more place for the admin kubeconfig, absolute; "" is none.
	WriteKubeconfig string
	// WriteKubeconfigMode is the file mode of that one; <data-dir>/admin.kubeconfig is 0600 always.
	WriteKubeconfigMode os.FileMode
	// Disable holds names of the table in disable.go; ask Disabled, which knows what implies what.
	Disable []string
	// KubeAPIServerArgs are key=value pairs for the API server's own flags, without leading dashes.
	KubeAPIServerArgs []string
	// NewStore lets the server begin with an empty store where one existed before.
	NewStore bool
	Snapshot Snapshot
	Log      Log
	GC       GC
}

// Snapshot is how the server makes snapshots of itself.
type Snapshot struct {
	// Interval is the time between two; 0 is never.
	Interval time.Duration
	// Retain is how many stay.
	Retain int
	// Dir is the folder for them, absolute; "" is SnapshotDir.
	Dir string
}

// Log is how a command writes its log.
type Log struct {
	// Level is trace, debug, info, warn or error.
	Level string
	// Format is text, logfmt or json; text is for people on a terminal, and logfmt elsewhere.
	Format string
}

// GC is how the collector works.
type GC struct {
	// Workers is how many objects are worked on at once; 0 is by the machine's cores.
	Workers int
	// Ignore are resources the collector does not look at, each written resource or resource.group.
	Ignore []string
	// Resync is the interval between sweeps, which compare the graph with fresh lists; 0 is never.
	Resync time.Duration
	// SyncTimeout bounds how long a foreground deletion waits without progress, and
	// SyncTimeoutPerDependent is added for each object that still depends on it; a SyncTimeout of 0 is for
	// ever.
	SyncTimeout, SyncTimeoutPerDependent time.Duration
	// CycleDetection breaks rings of objects that block each other in foreground deletion.
	CycleDetection bool
	// Check is how often the collector verifies its own graph; 0 is never.
	Check time.Duration
	// Guard is how many deletions within ten minutes may rest on lookups alone before the collector pauses itself; 0 is any
	// number.
	Guard int
	// OrphanTimeout bounds how long an orphaning deletion waits for resources that cannot be read; 0 is
	// for ever.
	OrphanTimeout time.Duration
	// AfterRestore is "hold" or "run": whether the first start on a store that was restored from a snapshot waits for
	// somebody who has looked at what would be collected.
	AfterRestore string
}

// DefaultServer returns the options of a server that nothing was said to. Its DataDir is empty, which
// Validate refuses, for an ordinary user without a home directory.
func DefaultServer() Server {
	return Server{
		DataDir:             defaultDataDir(os.Geteuid(), os.LookupEnv),
		BindAddress:         "127.0.0.1",
		HTTPSListenPort:     6443,
		SQLiteSynchronous:   "normal",
		DatastoreReserve:    16,
		WriteKubeconfigMode: 0o600,
		Snapshot:            Snapshot{Retain: 5},
		Log:                 Log{Level: "info", Format: "text"},
		GC:                  GC{AfterRestore: "hold", Resync: time.Hour, CycleDetection: true, SyncTimeout: 10 * time.Minute, SyncTimeoutPerDependent: 250 * time.Millisecond},
	}
}

// SQLite reports whether the datastore is an SQLite file, which only one server can use at a time.
func (s Server) SQLite() bool {
	scheme, _, _ := strings.Cut(s.DatastoreEndpoint, "://")
	return s.DatastoreEndpoint == "" || scheme == "sqlite"
}

// SharedDatastore reports whether other servers may be using the same datastore, so that the collector
// and the controllers need to elect a leader.
func (s Server) SharedDatastore() bool {
	return !s.SQLite()
}

// Disabled reports whether the named part of the table in disable.go is turned off, by its own name or
// by that of the group it is in.
func (s Server) Disabled(name string) bool {
	if slices.Contains(s.Disable, name) {
		return true
	}
	return isController(name) && slices.Contains(s.Disable, allControllers)
}

// Wrong is an error about what was configured that only the part concerned could
// find, before anything was done.
type Wrong struct{ Err error }

func (w Wrong) Error() string { return w.Err.Error() }
func (w Wrong) Unwrap() error { return w.Err }
