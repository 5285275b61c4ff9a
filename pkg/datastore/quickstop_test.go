package datastore

import (
	"bytes"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"
)

// TestStopRightAfterAStartIsQuiet: whatever has only begun by then takes the end for no failure.
func TestStopRightAfterAStartIsQuiet(t *testing.T) {
	var log bytes.Buffer
	logger := logrus.StandardLogger()
	out, level := logger.Out, logger.GetLevel()
	t.Cleanup(func() {
		logger.SetOutput(out)
		logger.SetLevel(level)
	})
	logger.SetOutput(&log)
	logger.SetLevel(logrus.WarnLevel)
	for range 30 {
		dir := t.TempDir()
		dsn, err := openSQLite(t.Context(), dir, "normal")
		if err != nil {
			t.Fatal(err)
		}
		sock, err := newSocket(dir, "kine.sock")
		if err != nil {
			t.Fatal(err)
		}
		k, err := startKine(t.Context(), Options{Dir: dir, Metrics: prometheus.NewRegistry()}, dsn, sock)
		if err != nil {
			t.Fatal(err)
		}
		k.stop()
		sock.close()
	}
	if log.Len() > 0 {
		t.Errorf("the starts and stops have logged:\n%s", &log)
	}
}
