package cli

import (
	"strings"

	"github.com/k3s-io/kine/pkg/server"
	"github.com/sirupsen/logrus"
)

// kineFormatter demotes to debug what kine logs as an error though it is none: whoever watches a quiet
// resource goes on from a revision that has been compacted meanwhile, is told so and lists again. That
// happens to every watch, every few minutes, for as long as the server runs.
//
// It is a formatter because a hook can change a record and not withhold it; a formatter writes nothing.
type kineFormatter struct {
	logrus.Formatter
	level logrus.Level
}

func (f kineFormatter) Format(e *logrus.Entry) ([]byte, error) {
	if e.Level == logrus.ErrorLevel && isCompacted(e.Message) {
		if f.level < logrus.DebugLevel {
			return nil, nil
		}
		e.Level = logrus.DebugLevel
	}
	return f.Formatter.Format(e)
}

// isCompacted knows the message of kine's watches by its ends: the error is not kept apart in the record.
func isCompacted(message string) bool {
	return strings.HasPrefix(message, "Failed to list ") && strings.HasSuffix(message, ": "+server.ErrCompacted.Error())
}
