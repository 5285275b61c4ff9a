package cli

import (
	"strings"

	"github.com/k3s-io/kine/pkg/server"
	"github.com/sirupsen/logrus"
)

// componentField says in a record which part wrote it. The parts of reap set it themselves.
const componentField = "component"

// kinePackages is what the names of kine's functions begin with.
const kinePackages = "github.com/k3s-io/kine/"

// componentFormatter gives kine's records their component, and makes its information debug: it tells of its
// connections and its schema at each start. Kine writes to logrus' standard logger, as reap does, so that only the
// caller tells them apart.
//
// It also demotes to debug what kine logs as an error though it is none: whoever watches a quiet resource goes on from a
// revision that has been compacted meanwhile, is told so and lists again. That happens to every watch, every few
// minutes, for as long as the server runs.
//
// It is a formatter because a hook can change a record and not withhold it; a formatter writes nothing.
type componentFormatter struct {
	logrus.Formatter
	level logrus.Level
}

func (f componentFormatter) Format(e *logrus.Entry) ([]byte, error) {
	if e.Caller != nil && strings.HasPrefix(e.Caller.Function, kinePackages) {
		e.Data[componentField] = "kine"
		if e.Level == logrus.InfoLevel || e.Level == logrus.ErrorLevel && isCompacted(e.Message) {
			e.Level = logrus.DebugLevel
		}
	}
	e.Caller = nil // file and line are for nobody who reads the log
	if e.Level > f.level {
		return nil, nil
	}
	return f.Formatter.Format(e)
}

// isCompacted knows the message of kine's watches by its ends: the error is not kept apart in the record.
func isCompacted(message string) bool {
	return strings.HasPrefix(message, "Failed to list ") && strings.HasSuffix(message, ": "+server.ErrCompacted.Error())
}
