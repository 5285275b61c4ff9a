package apiserver

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/pflag"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	apiserverapi "k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"

	"github.com/reap-dev/reap/pkg/pki"
)

// Options says how the API server runs.
type Options struct {
	// Listener accepts the API server's connections. The API server closes it.
	Listener net.Listener
	// PKI names the certificates and keys.
	PKI           pki.Files
	EtcdEndpoints []string
	// Shared is true if other servers use the same datastore.
	Shared bool
	// Store says whether the datastore takes writes. The zero value is one that always does.
	Store Store
	// StoreCompacts is true if the datastore compacts itself.
	StoreCompacts bool
	// ServiceClusterIPRange is where Services get their addresses from.
	ServiceClusterIPRange string
	// Handlers are served under paths of their own, and what is below them if they end
	// with a slash, to whoever RBAC allows it as non-resource URLs.
	Handlers map[string]http.Handler
	// LongRunning are paths, exactly, of Handlers whose requests may take as long as they need. Others end after a minute.
	LongRunning []string
	// Notes are shown by /readyz.
	Notes []Note
	// Args are the user's kube-apiserver arguments, key=value; they win over ours.
	Args []string
}

// owned are the arguments that reap sets itself, with what to use instead: to
// override one would separate the server from its certificates, its datastore or
// its port.
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
	"enable-garbage-collector":                "it decides what orphaning leaves behind; use --disable=gc to run no collector",
	"service-account-signing-endpoint":        "reap keeps the service-account key in the data directory",
	"external-hostname":                       "use --tls-san",
	"shutdown-delay-duration":                 "reap stops within ten seconds",
	"shutdown-send-retry-after":               "reap stops within ten seconds",
	"shutdown-watch-termination-grace-period": "reap stops within ten seconds",
}

// CheckArgs says whether kube-apiserver takes the user's arguments, one by one. It
// changes nothing.
func CheckArgs(args []string) error {
	_, fs := newRunOptions()
	return setArgs(fs, args)
}

// newRunOptions returns kube-apiserver's options at their defaults, and the flags
// that set them.
func newRunOptions() (*options.ServerRunOptions, *pflag.FlagSet) {
	s := options.NewServerRunOptions()
	fs := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	for _, set := range s.Flags().FlagSets {
		fs.AddFlagSet(set)
	}
	return s, fs
}

// runOptions turns the options into kube-apiserver's.
func runOptions(o Options) (*options.ServerRunOptions, error) {
	s, fs := newRunOptions()
	for _, arg := range arguments(o) {
		if err := set(fs, arg); err != nil {
			return nil, fmt.Errorf("setting our own argument: %w", err)
		}
	}
	if err := setArgs(fs, o.Args); err != nil {
		return nil, err
	}
	disableAdmission(s.Admission.GenericAdmission)
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

// checkArg refuses what reap owns.
func checkArg(arg string) error {
	name, _, _ := strings.Cut(arg, "=")
	if instead, ok := owned[name]; ok {
		return fmt.Errorf("--kube-apiserver-arg: %s cannot be set: %s", name, instead)
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

// arguments are what reap sets before the user's own.
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
		// Profiling stays off what an ordinary client certificate can reach.
		"profiling=false",
		// Watches end when a stop begins, instead of keeping it waiting.
		"shutdown-watch-termination-grace-period=2s",
	}
	if o.StoreCompacts {
		args = append(args, "etcd-compaction-interval=0")
	}
	ip := o.Listener.Addr().(*net.TCPAddr).IP
	if !o.Shared || ip.IsLoopback() {
		// Leases and endpoints are how several servers find each other. A single one
		// would write them every ten seconds for nobody.
		args = append(args, "endpoint-reconciler-type=none")
	}
	if !o.Shared {
		args = append(args, "feature-gates=APIServerIdentity=false,UnknownVersionInteroperabilityProxy=false")
	}
	return args
}

// advertise returns the address that the API server gives out as its own; nil leaves
// it to kube-apiserver, which refuses to start without a default route. Where it
// listens on all addresses, host finds one of this machine's. A server that no other
// has to find needs none: a device whose cable is out must start.
func advertise(ip net.IP, shared bool, host func() (net.IP, error)) net.IP {
	if !ip.IsUnspecified() {
		return ip
	}
	if _, err := host(); err != nil && !shared {
		return net.IPv4(127, 0, 0, 1)
	}
	return nil
}

// shutdownTimeout bounds how long an orderly stop waits for connections that
// clients keep open, so that a stop as a whole takes less than ten seconds.
const shutdownTimeout = 3 * time.Second

// allowAnonymous says which paths, exactly, may be read without credentials.
func allowAnonymous() []apiserverapi.AnonymousAuthCondition {
	return []apiserverapi.AnonymousAuthCondition{{Path: "/livez"}, {Path: "/readyz"}, {Path: "/version"}}
}
