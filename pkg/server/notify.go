package server

import (
	"os"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/sirupsen/logrus"
)

const notifyVariable = "NOTIFY_SOCKET"

// notifier reports the server's state to systemd (sd_notify(3)). The zero value does
// nothing.
type notifier struct{ socket string }

// takeNotifySocket takes the socket out of the environment: kube-apiserver's own code would
// report READY=1 as soon as its port is open, long before the collector runs, and child
// processes must not report for this one.
func takeNotifySocket() notifier {
	n := notifier{socket: os.Getenv(notifyVariable)}
	_ = os.Unsetenv(notifyVariable) // fails for malformed names only
	return n
}

// extend asks systemd for more time to start, twice as long as a start may take between two calls. Without it systemd would end a server
// that waits for its datastore.
func (n notifier) extend() { n.send("EXTEND_TIMEOUT_USEC=30000000") }

// send reports the state to systemd; a failure is no reason to stop serving.
func (n notifier) send(state string) {
	if n.socket == "" {
		return
	}
	_ = os.Setenv(notifyVariable, n.socket) // fails for malformed values only
	defer func() { _ = os.Unsetenv(notifyVariable) }()
	if _, err := daemon.SdNotify(false, state); err != nil {
		logrus.WithError(err).Warn("cannot notify systemd")
	}
}
