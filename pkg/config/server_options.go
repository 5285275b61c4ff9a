package config

import (
	"os"
	"strings"

	"github.com/urfave/cli/v2"
)

// The headings in the help. urfave sorts them.
const (
	categoryAccess       = "Access"
	categoryCollector    = "Collector"
	categoryControlPlane = "Control plane"
	categoryGeneral      = "General"
	categorySnapshots    = "Snapshots"
	categoryStorage      = "Storage"
)

// ServerFlags returns the flags of `reap server`, and a function that resolves all layers into its options.
// Call the function once, after a command line has been parsed with these flags.
func ServerFlags() ([]cli.Flag, func() (Server, error)) {
	return ServerFlagsElsewhere(os.Environ(), "")
}

// ServerFlagsElsewhere is ServerFlags for a server that runs in another environment, given as NAME=value, and below another
// root, which is put before the paths of configuration files.
func ServerFlagsElsewhere(variables []string, root string) ([]cli.Flag, func() (Server, error)) {
	s := DefaultServer()
	l := newLoader(s.options())
	l.environment, l.root = newEnvironment(variables), root
	return l.flags(), func() (Server, error) {
		if err := l.environment.check(); err != nil {
			return Server{}, err
		}
		if err := l.load(); err != nil {
			return Server{}, err
		}
		return s, s.Validate()
	}
}

// options returns the server's options, bound to s. The help shows the values of s as defaults.
func (s *Server) options() []*option {
	own := []*option{
		stringOption(&s.DataDir, parseDataDir, option{
			name: dataDirName, category: categoryStorage, placeholder: "DIR",
			usage: "directory for everything that the server keeps: the database, keys, admin.kubeconfig",
		}),
		stringOption(&s.DatastoreEndpoint, asIs(checkEndpoint), option{
			name: "datastore-endpoint", category: categoryStorage, placeholder: "URL",
			usage: "keep objects in PostgreSQL, MySQL or etcd, which several servers can share; etcd without an address " +
				"is an etcd of this server alone, in the data directory (default: SQLite in the data directory)",
		}),
		durationOption(&s.DatastoreTimeout, notNegative(acceptForEver), acceptForEver, option{
			name: "datastore-timeout", category: categoryStorage, placeholder: "DURATION",
			usage: "how long a datastore elsewhere may not answer, at the start and later, before the server ends with an error; 0: for ever",
		}),
		stringOption(&s.SQLiteSynchronous, asIs(oneOf(synchronousLevels)), option{
			name: "sqlite-synchronous", category: categoryStorage, placeholder: "LEVEL",
			usage: "full or normal: full syncs every write before it is acknowledged, so that a power cut loses none; normal " +
				"syncs less often, and a power cut may lose the last acknowledged writes",
		}),
		intOption(&s.DatastoreReserve, checkReserve, acceptReserve, option{
			name: "datastore-reserve", category: categoryStorage, placeholder: "MIB",
			usage: "size in MiB of a reserve file next to SQLite's or etcd's files, which makes room for deletions when the disk is " +
				"full; 0 is none",
		}),
		boolOption(&s.NewStore, option{
			name: "new-store", category: categoryStorage,
			usage: "start with an empty database although there was one before; otherwise that is an error, because clients " +
				"would take the lost objects for deleted",
		}),
		boolOption(&s.NewAuthorities, option{
			name: "new-authorities", category: categoryStorage,
			usage: "use a datastore elsewhere although its servers have other certificate authorities than the data directory; otherwise that is an " +
				"error, because tokens and certificates of one server would be refused by the others",
		}),
		stringOption(&s.AcceptRevision, asIs(checkRevision), option{
			name: "accept-revision", category: categoryStorage, placeholder: "N",
			usage: "go on with an SQLite database that has lost acknowledged writes and ends with revision N, which the error names; " +
				"the collector is held until reap resume",
		}),
		durationOption(&s.Snapshot.Interval, checkSnapshotInterval, acceptSnapshotInterval, option{
			name: "snapshot-interval", category: categorySnapshots, placeholder: "INTERVAL",
			usage: "how often to save a snapshot of the datastore and the keys; 0: never",
		}),
		intOption(&s.Snapshot.Retain, checkRetain, acceptRetain, option{
			name: "snapshot-retain", category: categorySnapshots, placeholder: "N",
			usage: "how many of these snapshots to keep",
		}),
		stringOption(&s.Snapshot.Dir, parsePath, option{
			name: "snapshot-dir", category: categorySnapshots, placeholder: "DIR",
			usage: "folder for these snapshots, best on another disk (default: snapshots in the data directory)",
		}),
		stringOption(&s.BindAddress, asIs(checkIP), option{
			name: "bind-address", category: categoryAccess, placeholder: "IP",
			usage: "address to listen on; 0.0.0.0 or :: for all",
		}),
		intOption(&s.HTTPSListenPort, checkPort, acceptPort, option{
			name: "https-listen-port", category: categoryAccess, placeholder: "PORT",
			usage: "port to listen on; 0 picks a free one, which the kubeconfig names",
		}),
		listOption(&s.TLSSANs, parseSAN, option{
			name: "tls-san", commas: true, category: categoryAccess, placeholder: "NAME",
			usage: "additional host name or IP address for the serving certificate (repeatable, or a,b)",
		}),
		stringOption(&s.WriteKubeconfig, parsePath, option{
			name: "write-kubeconfig", category: categoryAccess, placeholder: "FILE",
			usage: "also write the admin kubeconfig to this file",
		}),
		modeOption(&s.WriteKubeconfigMode, option{
			name: "write-kubeconfig-mode", category: categoryAccess, placeholder: "MODE",
			usage: "mode of that file, in octal",
		}),
		listOption(&s.Disable, asIs(checkPart), option{
			name: "disable", commas: true, category: categoryControlPlane, placeholder: "PART",
			usage: "part to turn off, one of " + strings.Join(partNames(), ", ") + "; controllers turns off all parts " +
				"that follow it here (repeatable, or a,b)",
		}),
		listOption(&s.KubeAPIServerArgs, parseAPIServerArg, option{
			name: "kube-apiserver-arg", category: categoryControlPlane, placeholder: "KEY=VALUE",
			usage: "flag of kube-apiserver to set (repeatable; in the environment, one to a line)",
		}),
	}
	return append(own, append(s.GC.options(), s.Log.options()...)...)
}

func (g *GC) options() []*option {
	return []*option{
		intOption(&g.Workers, checkWorkers, acceptWorkers, option{
			name: "gc-workers", alias: "concurrent-gc-syncs", category: categoryCollector, placeholder: "N",
			usage: "objects to process at the same time; 0: depends on the number of cores",
		}),
		listOption(&g.Ignore, asIs(checkResource), option{
			name: "gc-ignore", commas: true, category: categoryCollector, placeholder: "RESOURCE",
			usage: "resource that the collector ignores, such as widgets.example.com (repeatable, or a,b)",
		}),
		durationOption(&g.Resync, checkResync, acceptResync, option{
			name: "gc-resync", category: categoryCollector, placeholder: "INTERVAL",
			usage: "how often to compare the collector's graph with fresh lists of all objects; 0: never",
		}),
		durationOption(&g.SyncTimeout, notNegative(acceptForEver), acceptForEver, option{
			name: "gc-sync-timeout", category: categoryCollector, placeholder: "DURATION",
			usage: "how long a foreground deletion waits without progress before the object is deleted anyway; 0: for ever",
		}),
		durationOption(&g.SyncTimeoutPerDependent, notNegative(acceptAdded), acceptAdded, option{
			name: "gc-sync-timeout-per-dependent", category: categoryCollector, placeholder: "DURATION",
			usage: "time added to --gc-sync-timeout for each object that still depends on the waiting one; 0: none",
		}),
		boolOption(&g.CycleDetection, option{
			name: "gc-cycle-detection", category: categoryCollector,
			usage: "break rings of objects that block each other in foreground deletion",
		}),
		durationOption(&g.Check, notNegative(acceptCheck), acceptCheck, option{
			name: "gc-check", category: categoryCollector, placeholder: "INTERVAL",
			usage: "how often the collector verifies its own graph and logs inconsistencies, for development; 0: never",
		}),
		intOption(&g.Guard, checkCount, acceptCount, option{
			name: "gc-guard", category: categoryCollector, placeholder: "N",
			usage: "pause the collector before more than N deletions within ten minutes rest on lookups alone, without a watch event for the owner's deletion, as after a restore that went wrong; 0: no limit",
		}),
		stringOption(&g.AfterRestore, asIs(oneOf(afterRestore)), option{
			name: "gc-after-restore", category: categoryCollector, placeholder: "WHAT",
			usage: "first start after 'reap snapshot restore': hold stops the collector and the controllers that delete " +
				"objects until 'reap resume'; run starts them at once",
		}),
		durationOption(&g.OrphanTimeout, notNegative(acceptForEver), acceptForEver, option{
			name: "gc-orphan-timeout", category: categoryCollector, placeholder: "DURATION",
			usage: "how long an orphaning deletion waits for resources that cannot be read; 0: for ever",
		}),
	}
}

func (l *Log) options() []*option {
	return []*option{
		stringOption(&l.Level, asIs(oneOf(logLevels)), option{
			name: "log-level", category: categoryGeneral, placeholder: "LEVEL",
			usage: "trace, debug, info, warn or error",
		}),
		stringOption(&l.Format, asIs(oneOf(logFormats)), option{
			name: "log-format", category: categoryGeneral, placeholder: "FORMAT",
			usage: "text, logfmt or json; text means lines for people on a terminal, and logfmt elsewhere",
		}),
	}
}
