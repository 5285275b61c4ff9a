package datastore

import (
	"fmt"

	"github.com/go-sql-driver/mysql"
	"github.com/sirupsen/logrus"
)

// LogDriversTo leads what MySQL's driver logs into a logger, in place of lines of its own format on standard error. Call it before a
// datastore is started. The driver tells of connections that break off, which its caller is told of as errors too: so this is debug.
func LogDriversTo(l *logrus.Logger) {
	_ = mysql.SetLogger(driverLog{l.WithField("component", "mysql-driver")}) // fails without a logger only
}

type driverLog struct{ log *logrus.Entry }

// Print implements mysql.Logger.
func (d driverLog) Print(v ...any) { d.log.Debug(fmt.Sprint(v...)) }
