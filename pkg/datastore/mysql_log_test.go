package datastore

import (
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
)

// TestMySQLsDriverLogsAsEverythingElse, in the format of the log.
func TestMySQLsDriverLogsAsEverythingElse(t *testing.T) {
	was := mysql.NewConfig().Logger
	t.Cleanup(func() { _ = mysql.SetLogger(was) }) // it is there
	log, hook := logtest.NewNullLogger()
	log.SetLevel(logrus.DebugLevel)
	LogDriversTo(log)
	config, err := mysqlConfig("user@tcp(host)/db") // as each datastore reads it
	if err != nil {
		t.Fatal(err)
	}
	config.Logger.Print("unexpected", " EOF")
	if e := hook.LastEntry(); e == nil || e.Message != "unexpected EOF" || e.Level != logrus.DebugLevel || e.Data["component"] != "mysql-driver" {
		t.Errorf("logged %v", e)
	}
}
