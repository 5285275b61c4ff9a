package datastore

import (
	"fmt"
	"testing"

	"github.com/sirupsen/logrus"
	logrustest "github.com/sirupsen/logrus/hooks/test"
	"go.uber.org/zap"
)

// Whole requests, which etcd logs as debug, are not in the log at any level; what it tells of itself is.
func TestLogHasNoRequestsToEtcd(t *testing.T) {
	logger := logrus.StandardLogger()
	before, hooks := logger.GetLevel(), logger.ReplaceHooks(make(logrus.LevelHooks))
	defer func() {
		logger.SetLevel(before)
		logger.ReplaceHooks(hooks)
	}()
	log := logrustest.NewLocal(logger)
	logger.SetLevel(logrus.TraceLevel)
	etcd := newEtcdLog(t.TempDir()).logger()
	etcd.Debug("Apply", zap.String("raftReq", "the content of a Secret"))
	etcd.Info("elected", zap.String("leader", "itself"))
	var said []string
	for _, e := range log.AllEntries() {
		if e.Data["component"] == "etcd" { // a store that another test has stopped may still say so
			said = append(said, fmt.Sprint(e.Message, " ", e.Data["leader"]))
		}
	}
	if len(said) != 1 || said[0] != "elected itself" {
		t.Errorf("etcd said %q", said)
	}
}
