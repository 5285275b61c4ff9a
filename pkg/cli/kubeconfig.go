package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/homedir"
	"k8s.io/klog/v2"

	"github.com/reap-dev/reap/pkg/config"
)

// connect returns how to reach the server that a command is to talk to. It looks at these, and the first that is there decides, whether it can be used or not:
//
//	--kubeconfig
//	--data-dir           the kubeconfig that the server on it has written
//	$KUBECONFIG          files separated by colons, merged as kubectl does
//	this machine's reap server, whether it runs or not
//	~/.kube/config
//
// A command that deletes must never turn to another server because the one that was meant is down or its
// file is unreadable. Errors are about what was configured; no server is called.
func connect(client *config.Client) (*connection, error) {
	files, source, err := findKubeconfig(client)
	if err != nil {
		return nil, err
	}
	rules := &clientcmd.ClientConfigLoadingRules{Precedence: files}
	loaded, err := rules.Load()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w; correct it, or name another with --kubeconfig", err)
	}
	if name := client.Context; name != "" && loaded.Contexts[name] == nil {
		there := strings.Join(slices.Sorted(maps.Keys(loaded.Contexts)), ", ")
		return nil, fmt.Errorf("--context: %s has no context %q, but: %s", source, name, cmp.Or(there, "none"))
	}
	overrides := &clientcmd.ConfigOverrides{CurrentContext: client.Context}
	chosen := clientcmd.NewNonInteractiveClientConfig(*loaded, client.Context, overrides, rules)
	c, err := chosen.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		err = errors.New("it names no server")
		if contexts := slices.Sorted(maps.Keys(loaded.Contexts)); len(contexts) > 0 && loaded.CurrentContext == "" {
			err = fmt.Errorf("it has no current context: choose one with --context, of %s", strings.Join(contexts, ", "))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig %s: %w; correct it, or name another with --kubeconfig", source, err)
	}
	namespace, _, err := chosen.Namespace()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig %s: %w; correct it, or name another with --kubeconfig", source, err)
	}
	// The server limits the rate, not the client, whose default is five calls a second.
	c.QPS = -1
	// What fails is an error that the command prints in one line; client-go would log it several times before.
	klog.SetLogger(logr.Discard())
	return &connection{config: c, source: source, namespace: namespace}, nil
}

// findKubeconfig returns the files that together are the kubeconfig of connect, some of which may be
// missing, and what to call them.
func findKubeconfig(client *config.Client) (files []string, source string, err error) {
	if client.Kubeconfig != "" {
		if client.DataDirGiven() {
			return nil, "", errors.New("--kubeconfig and --data-dir each name a server: give one of them")
		}
		if missing(client.Kubeconfig) {
			return nil, "", fmt.Errorf("--kubeconfig: there is no file %s", client.Kubeconfig)
		}
		return []string{client.Kubeconfig}, client.Kubeconfig, nil
	}
	if client.DataDirGiven() {
		path, err := localKubeconfig(client)
		if err != nil {
			return nil, "", err
		}
		if missing(path) {
			dir := filepath.Dir(path)
			return nil, "", fmt.Errorf("--data-dir: no server has run on %s: start it with 'reap server --data-dir %s'", dir, dir)
		}
		return []string{path}, path, nil
	}
	if list := os.Getenv(clientcmd.RecommendedConfigPathEnvVar); list != "" {
		source := "$" + clientcmd.RecommendedConfigPathEnvVar + " (" + list + ")"
		files := filepath.SplitList(list)
		if !slices.ContainsFunc(files, func(path string) bool { return !missing(path) }) {
			return nil, "", fmt.Errorf("no file of %s exists: correct it, or give --kubeconfig", source)
		}
		return files, source, nil
	}

	local, err := findLocalKubeconfig(client)
	if err != nil {
		return nil, "", err
	}
	candidates := []string{local, homeKubeconfig()}
	candidates = slices.DeleteFunc(candidates, func(path string) bool { return path == "" })
	for _, path := range candidates {
		if !missing(path) {
			return []string{path}, path, nil
		}
	}
	return nil, "", fmt.Errorf("no server to talk to: neither --kubeconfig nor $KUBECONFIG is given, and none of these exists: %s; "+
		"start one with 'reap server', or give --kubeconfig", strings.Join(candidates, ", "))
}

// localKubeconfig is the file that the server on this machine writes, and which is missing if none ever ran;
// "" if there is no place for one.
func localKubeconfig(client *config.Client) (string, error) {
	dir, err := client.DataDir()
	if dir == "" || err != nil {
		return "", err
	}
	return config.AdminKubeconfig(dir), nil
}

// findLocalKubeconfig is localKubeconfig for those who named no server.
func findLocalKubeconfig(client *config.Client) (string, error) {
	path, err := localKubeconfig(client)
	if err != nil {
		err = fmt.Errorf("looking for this machine's server: %w; or say which server with --kubeconfig", err)
	}
	return path, err
}

// homeKubeconfig is where kubectl keeps its own; "" without a home directory.
func homeKubeconfig() string {
	home := homedir.HomeDir()
	if home == "" {
		return ""
	}
	return filepath.Join(home, clientcmd.RecommendedHomeDir, clientcmd.RecommendedFileName)
}

// missing reports whether there certainly is no such file: one that may not be looked at is there.
func missing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}
