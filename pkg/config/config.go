// Package config holds the options of reap's commands: their defaults, the layers they are read from,
// and what is accepted for each.
//
// An option can be set on the command line, in the environment and in YAML files. The leftmost of these
// places that sets it wins:
//
//	flag  >  REAP_… environment  >  <file>.d/*.yaml, last first  >  <file>  >  default
//
// Every error is one line that names the flag, the source of the value unless it is the command line, and
// the accepted values. Loading and validating read files and change nothing. No error contains the
// datastore endpoint, which may hold a password.
package config

import (
	"os"
	"slices"
	"time"
)

// Server is what `reap server` runs with. Start from DefaultServer: the zero value is not valid.
type Server struct {
	// Version is the binary's version, for the ready file. The command sets it.
	Version string
	// DataDir holds everything the server keeps: database, keys, kubeconfig. Absolute.
	DataDir string
	// BindAddress is the IP address the API server listens on.
	BindAddress string
	// HTTPSListenPort is the port the API server listens on; 0 picks a free one.
	HTTPSListenPort int
	// TLSSANs are additional host names and IP addresses for the serving certificate.
	TLSSANs []string
	// DatastoreEndpoint is a kine endpoint; "" means SQLite in the data directory, and EmbeddedEtcd an etcd there. Never
	// print it: it may hold a password.
	DatastoreEndpoint string
	// DatastoreTimeout bounds how long a datastore elsewhere may not answer before the server ends; 0 means for ever.
	DatastoreTimeout time.Duration
	// SQLiteSynchronous is "normal" or "full", as in SQLite's pragma.
	SQLiteSynchronous string
	// DatastoreReserve is how many MiB of the disk are kept for deletions when it is full; 0 means none.
	DatastoreReserve int
	// WriteKubeconfig is the absolute path of a second copy of the admin kubeconfig; "" means no copy.
	WriteKubeconfig string
	// WriteKubeconfigMode is the file mode of that copy. <data-dir>/admin.kubeconfig always has mode 0600.
	WriteKubeconfigMode os.FileMode
	// Disable holds names from the table in disable.go. Use Disabled to query it: a name can stand for a group.
	Disable []string
	// KubeAPIServerArgs are key=value pairs for the API server's own flags, without leading dashes.
	KubeAPIServerArgs []string
	// NewStore lets the server start with an empty store although one existed before.
	NewStore bool
	// NewAuthorities lets the server start on a shared datastore whose servers have had other certificate authorities.
	NewAuthorities bool
	// AcceptRevision is the revision with which an SQLite database may end although it had come further, as a decimal number; "" for none.
	AcceptRevision string
	Snapshot       Snapshot
	Log            Log
	GC             GC
}

// Snapshot configures the snapshots that the server makes of itself.
type Snapshot struct {
	// Interval is the time between two snapshots; 0 means none are made.
	Interval time.Duration
	// Retain is the number of snapshots to keep.
	Retain int
	// Dir is the absolute path of the folder for snapshots; "" means SnapshotDir.
	Dir string
}

// Log configures a command's log.
type Log struct {
	// Level is trace, debug, info, warn or error.
	Level string
	// Format is text, logfmt or json. Text means lines for people on a terminal, and logfmt elsewhere.
	Format string
}

// GC configures the collector.
type GC struct {
	// Workers is the number of objects processed at the same time; 0 derives it from the number of cores.
	Workers int
	// Ignore lists resources that the collector ignores, each written resource or resource.group.
	Ignore []string
	// Resync is the interval between sweeps, which compare the graph with fresh lists; 0 disables them.
	Resync time.Duration
	// SyncTimeout bounds how long a foreground deletion waits without progress; 0 means for ever.
	// SyncTimeoutPerDependent is added for each object that still depends on the waiting one.
	SyncTimeout, SyncTimeoutPerDependent time.Duration
	// CycleDetection breaks rings of objects that block each other in foreground deletion.
	CycleDetection bool
	// Check is the interval at which the collector verifies its own graph; 0 disables it.
	Check time.Duration
	// Guard is the number of deletions within ten minutes that may rest on lookups alone before the collector pauses
	// itself; 0 means no limit.
	Guard int
	// OrphanTimeout bounds how long an orphaning deletion waits for resources that cannot be read; 0 means
	// for ever.
	OrphanTimeout time.Duration
	// AfterRestore is "hold" or "run": whether the first start after a restore waits until somebody has checked what
	// would be collected.
	AfterRestore string
}

// DefaultServer returns the defaults. DataDir is empty, which Validate refuses, for an ordinary user
// without a home directory.
func DefaultServer() Server {
	return Server{
		DataDir:             defaultDataDir(os.Geteuid(), os.LookupEnv),
		BindAddress:         "127.0.0.1",
		HTTPSListenPort:     6443,
		SQLiteSynchronous:   "full",
		DatastoreReserve:    16,
		WriteKubeconfigMode: 0o600,
		Snapshot:            Snapshot{Retain: 5},
		Log:                 Log{Level: "info", Format: "text"},
		GC:                  GC{AfterRestore: "hold", Resync: time.Hour, CycleDetection: true, SyncTimeout: 10 * time.Minute, SyncTimeoutPerDependent: 250 * time.Millisecond},
	}
}

// EmbeddedEtcd is the DatastoreEndpoint of an etcd in this process with its files in the data directory.
const EmbeddedEtcd = "etcd"

// SharedDatastore reports whether other servers may use the same datastore. If so, the collector and the
// controllers need leader election.
func (s Server) SharedDatastore() bool {
	return s.DatastoreEndpoint != "" && s.DatastoreEndpoint != EmbeddedEtcd
}

// Disabled reports whether a part from the table in disable.go is turned off, by its own name or by its
// group's name.
func (s Server) Disabled(name string) bool {
	if slices.Contains(s.Disable, name) {
		return true
	}
	return isController(name) && slices.Contains(s.Disable, allControllers)
}

// UsageError is invalid configuration found after loading, before anything changed. The command exits
// with code 2.
type UsageError struct{ Err error }

func (u UsageError) Error() string { return u.Err.Error() }
func (u UsageError) Unwrap() error { return u.Err }
