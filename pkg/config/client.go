package config

import (
	"fmt"

	"github.com/urfave/cli/v2"
)

// Client holds the flags by which a command finds the server it talks to. ClientFlags returns one.
type Client struct {
	// Kubeconfig is the value of --kubeconfig; "" if the flag was not given.
	Kubeconfig string
	// Context is the value of --context; "" means the kubeconfig's current context.
	Context string

	dataDir  string
	option   *option
	loader   *loader
	services Services
	// ofService is true once DataDir has found the directory by an installed service alone.
	ofService bool
}

// ClientFlags returns the flags of every command that talks to a server, and the Client they are bound to.
// Use the Client after a command line has been parsed with these flags. If none is parsed, as for
// `reap kubectl`, the Client holds what the environment and the configuration files say.
func ClientFlags(services Services) ([]cli.Flag, *Client) {
	c, _ := newClient(services, categoryAccess, "talk to the reap server on this machine that uses this data directory; takes precedence over $KUBECONFIG")
	return []cli.Flag{
		&cli.StringFlag{
			Name: "kubeconfig", Category: categoryAccess, Destination: &c.Kubeconfig,
			Usage: "`FILE` kubeconfig of the server to talk to (default: $KUBECONFIG, that of the reap server on this " +
				"machine, or ~/.kube/config)",
		},
		&cli.StringFlag{
			Name: "context", Category: categoryAccess, Destination: &c.Context,
			Usage: "`NAME` context of the kubeconfig (default: its current one)",
		},
		c.option.cliFlag(),
		c.loader.config.cliFlag(),
	}, c
}

// DataDirFlags returns the flags of the commands that work on a data directory itself, and a function that
// returns the directory. Call it after a command line has been parsed with these flags.
func DataDirFlags(services Services) (flags []cli.Flag, find func() (string, error)) {
	c, _ := newClient(services, categoryStorage, dataDirUsage)
	return []cli.Flag{c.option.cliFlag(), c.loader.config.cliFlag()}, c.DataDir
}

const dataDirUsage = "data directory of the reap server"

// newClient returns a client with its flag for the data directory, and the server's options that its loader sets.
func newClient(services Services, category, usage string) (*Client, *Server) {
	s := DefaultServer()
	c := &Client{dataDir: s.DataDir, loader: newLoader(s.options()), services: services}
	c.option = stringOption(&c.dataDir, parseDataDir, option{name: dataDirName, category: category, placeholder: "DIR", usage: usage})
	return c, &s
}

// Store says where a server keeps its objects.
type Store struct {
	// DataDir is the data directory.
	DataDir string
	// Endpoint is that of a datastore elsewhere, which may hold a password; "" means SQLite in the data directory, and
	// EmbeddedEtcd an etcd there.
	Endpoint string
}

// StoreFlags returns the flags of the commands that work on the datastore itself, and a function that returns where
// that is. Call it after a command line has been parsed with these flags. A data directory that the command line, the
// environment or an installed service names is taken for one with a database: configuration files may be about another one.
func StoreFlags(services Services) (flags []cli.Flag, find func() (Store, error)) {
	c, s := newClient(services, categoryStorage, dataDirUsage)
	return []cli.Flag{c.option.cliFlag(), c.loader.config.cliFlag()}, func() (Store, error) { return c.store(s) }
}

// store returns where the server keeps its objects whose options the client's loader sets.
func (c *Client) store(s *Server) (store Store, err error) {
	if store.DataDir, err = c.DataDir(); err != nil {
		return store, err
	}
	if _, named := c.loader.given(c.option, nil); named || c.ofService {
		return store, nil
	}
	if err := c.loader.load(); err != nil {
		return store, err
	}
	store.Endpoint = s.DatastoreEndpoint
	return store, nil
}

// DataDirGiven reports whether the command line names the data directory.
func (c *Client) DataDirGiven() bool { return c.option.flag.given }

// DataDir returns the data directory of this machine's server. The command line says which, else the environment, else the installed
// service, else the configuration files, as for `reap server`. It returns "" if nothing names one and there is no home directory. If
// the command line or the environment names it, no configuration file is read: those may be readable by the server's user alone. If
// they name the configuration, no service is asked.
func (c *Client) DataDir() (string, error) {
	given, found := c.loader.given(c.option, nil)
	if found {
		return c.dataDirOf(given)
	}
	_, named := c.loader.given(c.loader.config, nil)
	files, err := c.loader.files()
	if err != nil {
		return "", err
	}
	given, found = c.loader.given(c.option, files)
	if found {
		if _, err := c.dataDirOf(given); err != nil {
			return "", err
		}
	}
	if named {
		return c.dataDir, nil
	}
	service, err := c.services.this()
	if err != nil || service == nil || service.DataDir == c.dataDir {
		return c.dataDir, err
	}
	if found {
		return "", fmt.Errorf("the service %s (%s) keeps its data in %s, and --%s is %s %s: name one with --%s",
			service.Name, service.Definition, service.DataDir, dataDirName, c.dataDir, given[len(given)-1].source, dataDirName)
	}
	c.ofService = true
	return service.DataDir, nil
}

func (c *Client) dataDirOf(given []setting) (string, error) {
	err := apply(c.option, given)
	return c.dataDir, err
}
