package server

import (
	"errors"
	"fmt"
	"net"
	"sort"
	"strings"
	"syscall"

	"github.com/prometheus/procfs"
)

// listen opens the listener.
func listen(address string, port int) (net.Listener, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(address, fmt.Sprint(port)))
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("listening: %w %s: stop it, or choose another address with --bind-address or another port with --https-listen-port (0 picks a free one)",
			err, whoListens(address, port))
	case err != nil:
		return nil, fmt.Errorf("listening: %w: choose another address with --bind-address or another port with --https-listen-port (0 picks a free one)", err)
	}
	return l, nil
}

// whoListens names the process that has the port, as far as this user may see it.
func whoListens(address string, port int) string {
	names, err := listeners("/proc", net.ParseIP(address), port)
	if err != nil || len(names) == 0 {
		return fmt.Sprintf("by another process, which 'sudo ss -ltnp sport = :%d' names", port)
	}
	return "by the process " + strings.Join(names, ", ")
}

// listenState is TCP_LISTEN in /proc/net/tcp.
const listenState = 10

// listeners returns the names and IDs of the processes whose sockets keep a listener off an address. It finds those of the
// processes whose descriptors this user may read.
func listeners(root string, address net.IP, port int) ([]string, error) {
	proc, err := procfs.NewFS(root)
	if err != nil {
		return nil, err
	}
	sockets := map[string]bool{}
	//lint:ignore SA1019 deprecated for netlink, which would be another dependency for a message
	for _, list := range []func() (procfs.NetTCP, error){proc.NetTCP, proc.NetTCP6} {
		all, err := list()
		if err != nil {
			continue // a kernel without IPv6
		}
		for _, s := range all {
			everywhere := s.LocalAddr.IsUnspecified() || address == nil || address.IsUnspecified()
			if s.St == listenState && s.LocalPort == uint64(port) && (everywhere || s.LocalAddr.Equal(address)) {
				sockets[fmt.Sprintf("socket:[%d]", s.Inode)] = true
			}
		}
	}
	processes, err := proc.AllProcs()
	if err != nil || len(sockets) == 0 {
		return nil, err
	}
	sort.Sort(processes) // by ID
	var found []string
	for _, p := range processes {
		descriptors, err := p.FileDescriptorTargets()
		if err != nil {
			continue // another user's, or one that has ended
		}
		for _, d := range descriptors {
			if sockets[d] {
				name, _ := p.Comm() // it may have ended by now, and its ID is still worth knowing
				found = append(found, strings.TrimSpace(fmt.Sprintf("%s %d", name, p.PID)))
				break
			}
		}
	}
	return found, nil
}
