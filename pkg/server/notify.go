package server

import (
	"os"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/sirupsen/logrus"
)

const notifyVariable = "NOTIFY_SOCKET"

// notifier tells systemd about the server's state (sd_notify(3)). The zero value
// tells nobody.
type notifier struct{ socket string }

// takeNotifySocket takes the socket out of the environment: kube-apiserver's own
// code would say READY=1 as soon as its port is open, long before the collector
// runs, and what is started from here must not speak for this process.
func takeNotifySocket() notifier {
	n := notifier{socket: os.Getenv(notifyVariable)}
	_ = os.Unsetenv(notifyVariable) // fails for malformed names only
	return n
}

// send tells systemd the state; a failure is no reason to stop serving.
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
