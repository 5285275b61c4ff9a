package server

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTakenPortNamesItsProcess: here it is the test's own.
func TestTakenPortNamesItsProcess(t *testing.T) {
	comm, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Skip("the kernel does not show processes in /proc")
	}
	self := fmt.Sprintf("%s %d", strings.TrimSpace(string(comm)), os.Getpid())
	for _, address := range []string{"127.0.0.1", "0.0.0.0", "::"} {
		taken, err := listen(address, 0)
		if err != nil {
			t.Logf("%s: %v", address, err) // no IPv6
			continue
		}
		port := taken.Addr().(*net.TCPAddr).Port
		_, err = listen("127.0.0.1", port)
		want := "address already in use by the process " + self + ": stop it, or choose another address"
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v\nwant %s", address, err, want)
		}
		if err := taken.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := listen("192.0.2.1", 0); err == nil || strings.Contains(err.Error(), "process") { // no address of this machine
		t.Errorf("not in use: %v", err)
	}
}

// TestListenersOnOtherAddressesAreNotBlamed, nor sockets that are connected, with /proc of a machine with three processes.
func TestListenersOnOtherAddressesAreNotBlamed(t *testing.T) {
	const head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
	line := func(n int, local, state string, inode int) string {
		return fmt.Sprintf("%4d: %s 00000000:0000 %s 00000000:00000000 00:00000000 00000000     0        0 %d 1 0000000000000000 100 0 0 10 0\n", n, local, state, inode)
	}
	root := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// 127.0.0.1:6443 and 127.0.0.2:6443 listen, 127.0.0.1:6444 too, and 127.0.0.1:6443 is also an end of a connection.
	write("net/tcp", head+line(0, "0100007F:192B", "0A", 11)+line(1, "0200007F:192B", "0A", 12)+line(2, "0100007F:192C", "0A", 13)+line(3, "0100007F:192B", "01", 14))
	for pid, inode := range map[string]string{"21": "11", "22": "12", "23": "14"} {
		write(pid+"/comm", "server"+pid+"\n")
		if err := os.Mkdir(filepath.Join(root, pid, "fd"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("socket:["+inode+"]", filepath.Join(root, pid, "fd", "3")); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		address string
		port    int
		want    string
	}{
		{"127.0.0.1", 6443, "server21 21"},
		{"127.0.0.2", 6443, "server22 22"},
		{"0.0.0.0", 6443, "server21 21, server22 22"},
		{"", 6443, "server21 21, server22 22"},
		{"127.0.0.1", 6444, ""}, // whose process cannot be read
		{"127.0.0.1", 6445, ""},
	} {
		got, err := listeners(root, net.ParseIP(tc.address), tc.port)
		if names := strings.Join(got, ", "); err != nil || names != tc.want {
			t.Errorf("%s:%d: %q and not %q (%v)", tc.address, tc.port, names, tc.want, err)
		}
	}
	if _, err := listeners(filepath.Join(root, "none"), nil, 6443); err == nil {
		t.Error("without /proc: no error")
	}
}
