package apiserver

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/pflag"
	clientv3 "go.etcd.io/etcd/client/v3"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	apiserverapi "k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"

	"github.com/reap-dev/reap/pkg/pki"
)

// Options configures the API server.
type Options struct {
	// CommandLine configures everything but Store, Handlers, LongRunning and Notes, if it is not nil: the fields for the
	// rest are not used then.
	CommandLine *CommandLine
	// Listener accepts the API server's connections. The API server closes it.
	Listener net.Listener
	// PKI names the certificates and keys.
	PKI           pki.Files
	EtcdEndpoints []string
	// Client, if not nil, makes a client of a datastore in this process, which has to compact itself. Every resource then
	// has one in place of the connection to EtcdEndpoints that they share otherwise; the API server closes them.
	// EtcdEndpoints are needed still: see stores.
	Client func() *clientv3.Client
	// Shared is true if other servers use the same datastore.
	Shared bool
	// Store says whether the datastore takes writes. The zero value is one that always does.
	Store Store
	// StoreCompacts is true if the datastore compacts itself.
	StoreCompacts bool
	// ServiceClusterIPRange is the CIDR from which Services get their addresses.
	ServiceClusterIPRange string
	// Handlers maps paths to additional handlers. A path that ends with a slash includes
	// everything below it. RBAC protects them as non-resource URLs.
	Handlers map[string]http.Handler
	// LongRunning lists exact paths of Handlers without a time limit. Requests to others end after a minute.
	LongRunning []string
	// Runs reports whether a controller runs, by its name as in --disable. nil: none does.
	Runs func(controller string) bool
	// Notes are shown by /readyz.
	Notes []Note
	// Args are the user's kube-apiserver arguments, key=value; they override ours.
	Args []string
}

// close closes the listener of a server that does not start.
func (o Options) close() error {
	if o.Listener == nil {
		return nil
	}
	return o.Listener.Close()
}

// userArgs returns the arguments that the user gave.
func (o Options) userArgs() []string {
	if o.CommandLine != nil {
		return o.CommandLine.args
	}
	return o.Args
}

// owned maps arguments that only reap may set to what users can do instead. Overriding
// one would separate the server from its certificates, its datastore or its port.
var owned = map[string]string{
	"secure-port":                             "use --https-listen-port",
	"bind-address":                            "use --bind-address",
	"etcd-servers":                            "use --datastore-endpoint",
	"etcd-cafile":                             "use --datastore-endpoint",
	"etcd-certfile":                           "use --datastore-endpoint",
	"etcd-keyfile":                            "use --datastore-endpoint",
	"tls-cert-file":                           "reap makes the serving certificate; use --tls-san for its names",
	"tls-private-key-file":                    "reap makes the serving certificate; use --tls-san for its names",
	"client-ca-file":                          "reap keeps its own certificate authorities in the data directory",
	"service-account-signing-key-file":        "reap keeps the service-account key in the data directory",
	"service-account-key-file":                "reap keeps the service-account key in the data directory",
	"requestheader-client-ca-file":            "reap keeps its own certificate authorities in the data directory",
	"requestheader-allowed-names":             "reap keeps its own certificate authorities in the data directory",
	"proxy-client-cert-file":                  "reap keeps its own certificate authorities in the data directory",
	"proxy-client-key-file":                   "reap keeps its own certificate authorities in the data directory",
	"enable-garbage-collector":                "without it orphaned objects keep their references and are collected later; use --disable=gc to run no collector",
	"service-account-signing-endpoint":        "reap keeps the service-account key in the data directory",
	"external-hostname":                       "use --tls-san",
	"shutdown-delay-duration":                 "reap stops within ten seconds",
	"shutdown-send-retry-after":               "reap stops within ten seconds",
	"shutdown-watch-termination-grace-period": "reap stops within ten seconds",
}

// ownedInProcess maps arguments that cannot be set while the datastore is in this process to the reason.
var ownedInProcess = map[string]string{
	"etcd-servers-overrides": "every resource is stored in the data directory; use --datastore-endpoint for a datastore elsewhere",
	"etcd-prefix":            "the objects in the data directory are below /registry; use --datastore-endpoint for a datastore elsewhere",
}

// CheckArgs returns an error if kube-apiserver or reap does not accept one of the user's arguments. It checks each argument by itself and
// changes nothing. inProcess is true if the datastore is to run in this process.
func CheckArgs(args []string, inProcess bool) error {
	for _, arg := range args {
		name, _, _ := strings.Cut(arg, "=")
		if reason, ok := ownedInProcess[name]; ok && inProcess {
			return refused(name, reason)
		}
	}
	_, fs := newRunOptions()
	return setArgs(fs, args)
}

// refused is the error of an argument that only reap may set.
func refused(name, reason string) error {
	return fmt.Errorf("--kube-apiserver-arg: %s cannot be set: %s", name, reason)
}

// newRunOptions returns kube-apiserver's default options, and the flags that set them.
func newRunOptions() (*options.ServerRunOptions, *pflag.FlagSet) {
	s := options.NewServerRunOptions()
	fs := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	for _, set := range s.Flags().FlagSets {
		fs.AddFlagSet(set)
	}
	return s, fs
}

// runOptions converts the options to kube-apiserver's.
func runOptions(o Options) (*options.ServerRunOptions, error) {
	if o.CommandLine != nil {
		return o.CommandLine.options(o.Runs)
	}
	s, fs := newRunOptions()
	for _, arg := range arguments(o) {
		if err := set(fs, arg); err != nil {
			return nil, fmt.Errorf("setting our own argument: %w", err)
		}
	}
	if err := setArgs(fs, o.Args); err != nil {
		return nil, err
	}
	disableAdmission(s.Admission.GenericAdmission, o.Runs)
	s.SecureServing.Listener = o.Listener
	s.SecureServing.BindPort = o.Listener.Addr().(*net.TCPAddr).Port
	if s.GenericServerRunOptions.AdvertiseAddress == nil { // else the user has said
		s.GenericServerRunOptions.AdvertiseAddress = advertise(o.Listener.Addr().(*net.TCPAddr).IP, o.Shared, utilnet.ChooseHostInterface)
	}
	return s, nil
}

func setArgs(fs *pflag.FlagSet, args []string) error {
	for _, arg := range args {
		if err := checkArg(arg); err != nil {
			return err
		}
		if err := set(fs, arg); err != nil {
			return fmt.Errorf("--kube-apiserver-arg: %w", err)
		}
	}
	return nil
}

// checkArg refuses arguments that only reap may set.
func checkArg(arg string) error {
	name, _, _ := strings.Cut(arg, "=")
	if instead, ok := owned[name]; ok {
		return refused(name, instead)
	}
	return nil
}

func set(fs *pflag.FlagSet, arg string) error {
	name, value, _ := strings.Cut(arg, "=")
	if fs.Lookup(name) == nil {
		return fmt.Errorf("kube-apiserver has no argument %q", name)
	}
	if err := fs.Set(name, value); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// arguments returns reap's own arguments, which the user's may override.
func arguments(o Options) []string {
	args := []string{
		"etcd-servers=" + strings.Join(o.EtcdEndpoints, ","),
		"tls-cert-file=" + o.PKI.ServingCert,
		"tls-private-key-file=" + o.PKI.ServingKey,
		"client-ca-file=" + o.PKI.ClientCA,
		"requestheader-client-ca-file=" + o.PKI.FrontProxyCA,
		"requestheader-allowed-names=" + pki.FrontProxyName,
		"requestheader-username-headers=X-Remote-User",
		"requestheader-group-headers=X-Remote-Group",
		"requestheader-extra-headers-prefix=X-Remote-Extra-",
		"proxy-client-cert-file=" + o.PKI.FrontProxyCert,
		"proxy-client-key-file=" + o.PKI.FrontProxyKey,
		"service-account-signing-key-file=" + o.PKI.ServiceAccountKey,
		"service-account-key-file=" + o.PKI.ServiceAccountKey,
		"service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"service-cluster-ip-range=" + o.ServiceClusterIPRange,
		"authorization-mode=Node,RBAC",
		"allow-privileged=true",
		// Anonymous users get what allowAnonymous lets through, and nothing else.
		"anonymous-auth=false",
		// The watch cache keeps every object of every watched resource in memory; a
		// single server's store answers fast enough without.
		"watch-cache=false",
		// No profiling, which holders of ordinary client certificates could otherwise reach.
		"profiling=false",
		// Nobody reads the leases of these: servers forward requests to each other only with
		// --peer-ca-file. They would be written every ten seconds, and servers on one machine,
		// which have one identity, would warn of each other.
		"feature-gates=" + noIdentity,
		// Watches end when a stop begins, and do not delay it.
		"shutdown-watch-termination-grace-period=2s",
	}
	if o.StoreCompacts {
		args = append(args, "etcd-compaction-interval=0")
	}
	ip := o.Listener.Addr().(*net.TCPAddr).IP
	if !o.Shared || ip.IsLoopback() {
		// The endpoints of the Service kubernetes tell clients the addresses of several
		// servers. A single server would write them every ten seconds without a reader.
		args = append(args, "endpoint-reconciler-type=none")
	}
	return args
}

// noIdentity are the feature gates by which several servers on one datastore find each other; each would write a lease
// every ten seconds.
const noIdentity = "APIServerIdentity=false,UnknownVersionInteroperabilityProxy=false"

// advertise returns the address that the API server advertises. nil lets kube-apiserver
// choose, which fails without a default route. If the server listens on all addresses,
// host finds one of this machine. Without any, a single server advertises the loopback
// address: a device without a network must start.
func advertise(ip net.IP, shared bool, host func() (net.IP, error)) net.IP {
	if !ip.IsUnspecified() {
		return ip
	}
	if _, err := host(); err != nil && !shared {
		return net.IPv4(127, 0, 0, 1)
	}
	return nil
}

// shutdownTimeout bounds how long a stop waits for connections that clients keep open,
// so that the whole stop takes less than ten seconds.
const shutdownTimeout = 3 * time.Second

// allowAnonymous returns the exact paths that may be read without credentials.
func allowAnonymous() []apiserverapi.AnonymousAuthCondition {
	return []apiserverapi.AnonymousAuthCondition{{Path: "/livez"}, {Path: "/readyz"}, {Path: "/version"}}
}
