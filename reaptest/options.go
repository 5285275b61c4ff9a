package reaptest

import (
	"io"

	"k8s.io/apimachinery/pkg/runtime"
)

// Option changes what [Start] and [Run] do.
type Option func(*settings)

type settings struct {
	binary string
	args   []string
	dir    string
	log    io.Writer
	scheme *runtime.Scheme
}

// WithBinary names the reap binary: a path, or a name to be looked for on PATH. The default is
// $REAP_BINARY, else reap. A script in its place must exec the binary.
func WithBinary(binary string) Option { return func(s *settings) { s.binary = binary } }

// WithArgs adds flags of `reap server`, such as --disable=controllers; they win over those that this
// package gives.
func WithArgs(args ...string) Option {
	return func(s *settings) { s.args = append(s.args, args...) }
}

// WithDir keeps the server's data in dir, where a later server finds it again. Without it the data is
// thrown away when the server stops.
func WithDir(dir string) Option { return func(s *settings) { s.dir = dir } }

// WithDatastore names the datastore: "etcd" is an etcd in the server's own process, a URL is one elsewhere. The default is
// SQLite.
func WithDatastore(endpoint string) Option { return WithArgs("--datastore-endpoint=" + endpoint) }

// WithLog writes the server's log to w too, from another goroutine, until [Server.Stop] returns.
// t.Output() shows it with the test's own.
func WithLog(w io.Writer) Option { return func(s *settings) { s.log = w } }

// WithScheme names the scheme by which [Server.Gone] knows the kinds of typed objects. The default is client-go's, to which
// custom types may have been added.
func WithScheme(scheme *runtime.Scheme) Option { return func(s *settings) { s.scheme = scheme } }
