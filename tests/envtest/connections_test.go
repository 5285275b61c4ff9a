package envtest

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// TestResourcesShareAConnectionToEtcd: a connection for each of more than a hundred resources would take a fifth of the
// memory of both programs.
func TestResourcesShareAConnectionToEtcd(t *testing.T) {
	env := start(t, &envtest.Environment{})
	n, err := connectionsTo(env.of.ControlPlane.Etcd.URL)
	if err != nil {
		t.Fatal(err)
	}
	// That of the resources; those of two health checks, the allocators of ports and what compacts for them; etcd's own.
	if n == 0 || n > 10 {
		t.Errorf("etcd has %d connections", n)
	}
	t.Attr("power", fmt.Sprintf("connections=%d", n))
}

// connectionsTo counts the connections of this machine's processes to a port.
func connectionsTo(u *url.URL) (n int, err error) {
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		return 0, err
	}
	const established = "01"
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		raw, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) { // a machine without that version of IP
			continue
		}
		if err != nil {
			return 0, err
		}
		for line := range strings.Lines(string(raw)) {
			// The number, this end, the other end, the state.
			words := strings.Fields(line)
			if len(words) > 3 && strings.HasSuffix(words[2], fmt.Sprintf(":%04X", port)) && words[3] == established {
				n++
			}
		}
	}
	return n, nil
}
