package datastore

import (
	"bytes"
	"testing"

	"github.com/sirupsen/logrus"
	"go.uber.org/zap"
)

// Whole requests, which etcd logs as debug, are not in the log at any level; what it tells of itself is.
func TestLogHasNoRequestsToEtcd(t *testing.T) {
	logger := logrus.StandardLogger()
	before, out := logger.GetLevel(), logger.Out
	defer func() {
		logger.SetLevel(before)
		logger.SetOutput(out)
	}()
	var log bytes.Buffer
	logger.SetOutput(&log)
	logger.SetLevel(logrus.TraceLevel)
	etcd := newEtcdLog(t.TempDir()).logger()
	etcd.Debug("Apply", zap.String("raftReq", "the content of a Secret"))
	if log.Len() > 0 {
		t.Errorf("the log has %s", &log)
	}
	etcd.Info("elected", zap.String("leader", "itself"))
	if !bytes.Contains(log.Bytes(), []byte("leader=itself")) {
		t.Errorf("the log has %q", &log)
	}
}
