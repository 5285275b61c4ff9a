package datastore

import (
	"strings"
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
	// A store that another test has stopped, or whose start it has given up, may still say something.
	said := 0
	for _, e := range log.AllEntries() {
		line, err := e.String()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, "Secret") || e.Data["raftReq"] != nil {
			t.Errorf("etcd said %s", line)
		}
		if e.Message == "elected" && e.Data["leader"] == "itself" {
			said++
		}
	}
	if said != 1 {
		t.Errorf("it said %d times what it may say", said)
	}
}
