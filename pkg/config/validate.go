package config

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

var (
	logLevels         = []string{"trace", "debug", "info", "warn", "error"}
	logFormats        = []string{"text", "logfmt", "json"}
	synchronousLevels = []string{"normal", "full"}
	afterRestore      = []string{"hold", "run"}

	// endpointSchemes are the drivers of kine that reap supports. The others are excluded on purpose: memory
	// and t4 do not keep objects, SharedDatastore would take litestream for a shared datastore, and an SQLite file elsewhere
	// would have no lock, no reserve and none of the checks that the one in the data directory has.
	endpointSchemes = []string{
		"postgres", "postgresql", "mysql", "http", "https", "unix", "unixs",
	}

	schemePattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*$`)
	argPattern    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*$`)
)

// The ranges of numbers, and the texts about them in errors: the same for a number out of range and for a
// text that is not a number.
const (
	maxReserve    = 4096
	maxPort       = 65535
	acceptPort    = "give 1 to 65535, or 0 for a free one"
	maxWorkers    = 1000 // catches typing errors: more workers help on no machine
	acceptReserve = "give 1 to 4096 MiB, or 0 for none"
	acceptCount   = "give a number, or 0 for no limit"
	acceptWorkers = "give 1 to 1000, or 0 for as many as suit the machine"
)

// Validate returns the first invalid option. It is needed for options that were set in code and not loaded,
// and for defaults that are invalid on this machine. It changes nothing.
func (s Server) Validate() error {
	for _, c := range []struct {
		option string
		err    error
	}{
		{"data-dir", checkDataDir(s.DataDir)},
		{"bind-address", checkIP(s.BindAddress)},
		{"https-listen-port", checkPort(s.HTTPSListenPort)},
		{"tls-san", each(s.TLSSANs, checkSAN)},
		{"datastore-endpoint", checkEndpoint(s.DatastoreEndpoint)},
		{"datastore-timeout", notNegative(acceptForEver)(s.DatastoreTimeout)},
		{"sqlite-synchronous", oneOf(synchronousLevels)(s.SQLiteSynchronous)},
		{"datastore-reserve", checkReserve(s.DatastoreReserve)},
		{"accept-revision", checkRevision(s.AcceptRevision)},
		{"snapshot-interval", checkSnapshotInterval(s.Snapshot.Interval)},
		{"snapshot-retain", checkRetain(s.Snapshot.Retain)},
		{"snapshot-dir", checkPath(s.Snapshot.Dir)},
		{"write-kubeconfig", checkPath(s.WriteKubeconfig)},
		{"write-kubeconfig-mode", checkMode(s.WriteKubeconfigMode)},
		{"disable", each(s.Disable, checkPart)},
		{"kube-apiserver-arg", each(s.KubeAPIServerArgs, checkAPIServerArg)},
		{"gc-workers", checkWorkers(s.GC.Workers)},
		{"gc-resync", checkResync(s.GC.Resync)},
		{"gc-orphan-timeout", notNegative(acceptForEver)(s.GC.OrphanTimeout)},
		{"gc-after-restore", oneOf(afterRestore)(s.GC.AfterRestore)},
		{"gc-sync-timeout", notNegative(acceptForEver)(s.GC.SyncTimeout)},
		{"gc-sync-timeout-per-dependent", notNegative(acceptAdded)(s.GC.SyncTimeoutPerDependent)},
		{"gc-guard", checkCount(s.GC.Guard)},
		{"gc-check", notNegative(acceptCheck)(s.GC.Check)},
		{"gc-ignore", each(s.GC.Ignore, checkResource)},
		{"log-level", oneOf(logLevels)(s.Log.Level)},
		{"log-format", oneOf(logFormats)(s.Log.Format)},
	} {
		if c.err != nil {
			return fmt.Errorf("--%s: %w", c.option, c.err)
		}
	}
	return nil
}

func each(values []string, check func(string) error) error {
	for _, v := range values {
		if err := check(v); err != nil {
			return err
		}
	}
	return nil
}

func oneOf(accepted []string) func(string) error {
	return func(value string) error {
		if slices.Contains(accepted, value) {
			return nil
		}
		return fmt.Errorf("%q is not accepted%s: give one of %s",
			value, didYouMean(value, accepted), strings.Join(accepted, ", "))
	}
}

// parsePath makes a path absolute, relative to the working directory. It refuses a leading tilde, which the
// shell does not expand after "=" or in a file: taken literally it would create a directory named "~".
func parsePath(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	if path == "~" || strings.HasPrefix(path, "~/") {
		return "", fmt.Errorf("%q: ~ is not expanded here: write the full path", path)
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("making %q absolute: %w", path, err)
	}
	return absolute, nil
}

func checkPath(path string) error {
	if path != "" && !filepath.IsAbs(path) {
		return fmt.Errorf("%q is not an absolute path", path)
	}
	return nil
}

func parseDataDir(dir string) (string, error) {
	dir, err := parsePath(dir)
	if err != nil {
		return "", err
	}
	return dir, checkDataDir(dir)
}

func checkDataDir(dir string) error {
	if dir == "" {
		return errors.New("no directory is given, and there is no home directory to put it in: name one")
	}
	// A question mark begins the parameters of SQLite's DSN and cannot be escaped.
	if strings.Contains(dir, "?") {
		return fmt.Errorf("%q contains a question mark, which SQLite cannot open: name another directory", dir)
	}
	return checkPath(dir)
}

func checkIP(address string) error {
	if net.ParseIP(address) == nil {
		return fmt.Errorf("%q is not an IP address: give one such as 127.0.0.1, 0.0.0.0 or ::1", address)
	}
	return nil
}

func checkPort(port int) error {
	if port < 0 || port > maxPort {
		return fmt.Errorf("%d is not a port: %s", port, acceptPort)
	}
	return nil
}

// parseSAN converts a name to lower case: names in certificates are compared case-insensitively, and
// Kubernetes' checks accept only lower case.
func parseSAN(san string) (string, error) {
	san = strings.ToLower(san)
	return san, checkSAN(san)
}

func checkSAN(san string) error {
	if net.ParseIP(san) != nil ||
		len(validation.IsDNS1123Subdomain(san)) == 0 || len(validation.IsWildcardDNS1123Subdomain(san)) == 0 {
		return nil
	}
	return fmt.Errorf("%q is neither a host name nor an IP address: give one such as edge-1.example.com, "+
		"*.example.com or 192.0.2.7", san)
}

// checkEndpoint prints no part of the endpoint except a well-formed scheme: the rest may hold a password.
func checkEndpoint(endpoint string) error {
	if endpoint == "" || endpoint == EmbeddedEtcd {
		return nil
	}
	scheme, _, found := strings.Cut(endpoint, "://")
	if scheme == "sqlite" || found && scheme == "sqlite3" {
		return errors.New("SQLite's file is db/state.db in the data directory, where no second server can open it: " +
			"leave out this option, and choose the data directory with --data-dir")
	}
	if !found || !schemePattern.MatchString(scheme) {
		return errors.New("this is neither a URL nor etcd: give a URL such as postgres://user:password@host:5432/database, " +
			"etcd for an etcd in the data directory, or nothing for SQLite there")
	}
	if !slices.Contains(endpointSchemes, scheme) {
		return fmt.Errorf("unknown datastore %q%s: give one of %s, or etcd without an address for an etcd in the data directory",
			scheme, didYouMean(scheme, endpointSchemes), strings.Join(endpointSchemes, ", "))
	}
	if strings.HasPrefix(scheme, "http") && strings.Contains(endpoint, "@") {
		return errors.New("etcd takes no user in its URL: give only its address, such as https://etcd-1:2379")
	}
	return nil
}

func checkMode(mode os.FileMode) error {
	if mode&^os.ModePerm != 0 {
		return fmt.Errorf("%#o is not a file mode: give 0000 to 0777, such as 0600 or 0640", uint32(mode))
	}
	return nil
}

// parseAPIServerArg also accepts leading dashes, so that kube-apiserver's flags can be pasted.
func parseAPIServerArg(arg string) (string, error) {
	arg = strings.TrimLeft(strings.TrimSpace(arg), "-")
	return arg, checkAPIServerArg(arg)
}

func checkAPIServerArg(arg string) error {
	key, _, found := strings.Cut(arg, "=")
	if !found {
		return fmt.Errorf("%q has no value: give key=value, such as profiling=false", arg)
	}
	if !argPattern.MatchString(key) {
		return fmt.Errorf("%q is not the name of a flag: give key=value, such as profiling=false", key)
	}
	return nil
}

func checkWorkers(n int) error {
	if n < 0 || n > maxWorkers {
		return fmt.Errorf("%d is out of range: %s", n, acceptWorkers)
	}
	return nil
}

// checkRevision takes a number without signs and zeros in front, so that two texts of a number are equal.
func checkRevision(text string) error {
	if n, err := strconv.ParseInt(text, 10, 64); text != "" && (err != nil || n < 1 || strconv.FormatInt(n, 10) != text) {
		return fmt.Errorf("%q is no revision: give the number that the error of the start names", text)
	}
	return nil
}

func checkReserve(mib int) error {
	if mib < 0 || mib > maxReserve {
		return fmt.Errorf("%d MiB is out of range: %s", mib, acceptReserve)
	}
	return nil
}

func checkCount(n int) error {
	if n < 0 {
		return fmt.Errorf("%d is out of range: %s", n, acceptCount)
	}
	return nil
}

// minResync keeps the collector from listing all objects continuously.
const minResync = time.Minute

// minSnapshotInterval keeps the server from making snapshots continuously; maxRetain catches typing errors.
const (
	minSnapshotInterval    = time.Minute
	acceptSnapshotInterval = "give at least 1m, such as 24h, or 0 for never"
	maxRetain              = 10000
	acceptRetain           = "give 1 to 10000"
)

func checkSnapshotInterval(d time.Duration) error {
	if d != 0 && d < minSnapshotInterval {
		return fmt.Errorf("%s is out of range: %s", d, acceptSnapshotInterval)
	}
	return nil
}

func checkRetain(n int) error {
	if n < 1 || n > maxRetain {
		return fmt.Errorf("%d is out of range: %s", n, acceptRetain)
	}
	return nil
}

const (
	acceptResync  = "give at least 1m, such as 1h, or 0 for never"
	acceptForEver = "give a duration such as 10m, or 0 for ever"
	acceptAdded   = "give a duration such as 250ms, or 0 for no added time"
	acceptCheck   = "give a duration such as 10m, or 0 for never"
)

func checkResync(d time.Duration) error {
	if d != 0 && d < minResync {
		return fmt.Errorf("%s is out of range: %s", d, acceptResync)
	}
	return nil
}

// notNegative returns a check for durations. accept says what is accepted, and what 0 means.
func notNegative(accept string) func(time.Duration) error {
	return func(d time.Duration) error {
		if d < 0 {
			return fmt.Errorf("%s is out of range: %s", d, accept)
		}
		return nil
	}
}

func checkResource(resource string) error {
	name, group, grouped := strings.Cut(resource, ".")
	if len(validation.IsDNS1123Label(name)) == 0 &&
		(!grouped || len(validation.IsDNS1123Subdomain(group)) == 0) {
		return nil
	}
	return fmt.Errorf("%q is not a resource: give resource or resource.group in lower case, "+
		"such as configmaps or deployments.apps", resource)
}
