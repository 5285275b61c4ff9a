package apiserver

import (
	"errors"
	"net"
	"strings"
	"testing"
)

func TestAdvertisedAddress(t *testing.T) {
	found := func() (net.IP, error) { return net.IPv4(192, 0, 2, 1), nil }
	none := func() (net.IP, error) { return nil, errors.New("no default route") }
	for _, tc := range []struct {
		name   string
		ip     net.IP
		shared bool
		host   func() (net.IP, error)
		want   net.IP // nil for kube-apiserver's choice
	}{
		{"one address", net.IPv4(192, 0, 2, 7), false, none, net.IPv4(192, 0, 2, 7)},
		{"loopback", net.IPv6loopback, false, none, net.IPv6loopback},
		{"all addresses", net.IPv4zero, false, found, nil},
		{"all addresses, no network", net.IPv4zero, false, none, net.IPv4(127, 0, 0, 1)},
		{"all addresses, no network, IPv6", net.IPv6unspecified, false, none, net.IPv4(127, 0, 0, 1)},
		// Others would be told an address that leads to themselves.
		{"all addresses, no network, several servers", net.IPv4zero, true, none, nil},
	} {
		if got := advertise(tc.ip, tc.shared, tc.host); !got.Equal(tc.want) {
			t.Errorf("%s: got %s, want %s", tc.name, got, tc.want)
		}
	}
}

// Without the user's argument the listener's address would be advertised.
func TestUserSetsTheAdvertisedAddress(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }() // nobody connects
	s, err := runOptions(Options{Listener: l, ServiceClusterIPRange: "10.43.0.0/16", Args: []string{"advertise-address=192.0.2.7"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.GenericServerRunOptions.AdvertiseAddress; !got.Equal(net.IPv4(192, 0, 2, 7)) {
		t.Errorf("got %s", got)
	}
}

// The objects of a datastore in this process are where reap looks for them, and nowhere else.
func TestArgumentsAboutOtherDatastoresAreRefused(t *testing.T) {
	for _, arg := range []string{"etcd-servers-overrides=/events#http://127.0.0.1:2379", "etcd-prefix=/other"} {
		name, _, _ := strings.Cut(arg, "=")
		if err := CheckArgs([]string{"v=2", arg}, true); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "--datastore-endpoint") {
			t.Errorf("%s with a datastore in this process: %v", arg, err)
		}
		if err := CheckArgs([]string{"v=2", arg}, false); err != nil {
			t.Errorf("%s with a datastore elsewhere: %v", arg, err)
		}
	}
}
