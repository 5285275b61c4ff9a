package cli

import (
	"io"
	"strings"

	"github.com/k3s-io/kine/pkg/server"
	"github.com/sirupsen/logrus"

	"github.com/reap-dev/reap/pkg/datastore"
	"github.com/reap-dev/reap/pkg/datastore/outage"
	"github.com/reap-dev/reap/pkg/etcdlog"
)

// componentField says in a record which part wrote it. The parts of reap set it themselves.
const componentField = "component"

// kineComponent is the component of kine's records.
const kineComponent = "kine"

// isOthers reports whether a record is none of reap's own.
func isOthers(e *logrus.Entry) bool {
	switch e.Data[componentField] {
	case kineComponent, kubernetesComponent, etcdlog.Component:
		return true
	}
	return false
}

// kinePackages is what the names of kine's functions begin with.
const kinePackages = "github.com/k3s-io/kine/"

// componentFormatter gives kine's records their component, and makes its information debug: it tells of its
// connections and its schema at each start. Kine writes to logrus' standard logger, as reap does, so that only the
// caller tells them apart.
//
// It also demotes two records of kine that are no trouble. A client that watches a quiet resource continues from a revision
// that has been compacted meanwhile, is told so and lists again: every watch does that every few minutes. And at a first start
// MySQL does not have the database yet: kine creates it, and if it cannot, the start ends with that error.
//
// While the datastore is down, it demotes all warnings, and the errors of other libraries. It holds these records back
// until it is known whether the datastore is down.
//
// It is a formatter because a hook can change a record and not withhold it; a formatter writes nothing.
type componentFormatter struct {
	logrus.Formatter
	level logrus.Level
	out   io.Writer // of records that were held back
	down  *outage.Outage
}

func (f componentFormatter) Format(e *logrus.Entry) ([]byte, error) {
	if e.Caller != nil && strings.HasPrefix(e.Caller.Function, kinePackages) {
		if datastore.IsWithValue(e.Message) {
			return nil, nil // the datastore tells of it without the value
		}
		e.Data[componentField] = kineComponent
		if e.Level == logrus.InfoLevel || e.Level == logrus.ErrorLevel && isCompacted(e.Message) || e.Level == logrus.WarnLevel && isToBeCreated(e.Message) {
			e.Level = logrus.DebugLevel
		}
	}
	e.Caller = nil                                                                  // file and line are for nobody who reads the log
	if e.Level == logrus.WarnLevel || e.Level == logrus.ErrorLevel && isOthers(e) { // what is fatal is shown at once
		if f.down.Down() {
			e.Level = logrus.DebugLevel
		} else if e.Level <= f.level && f.hold(e) {
			return nil, nil
		}
	}
	return f.write(e)
}

// hold keeps a record back if it can be a consequence of an outage.
func (f componentFormatter) hold(e *logrus.Entry) (held bool) {
	kept := *e
	kept.Buffer = nil // the logger uses it again
	return f.down.Hold(func(down bool) {
		if down {
			kept.Level = logrus.DebugLevel
		}
		if line, err := f.write(&kept); err == nil {
			_, _ = f.out.Write(line) // a log that cannot be written has no other place
		}
	})
}

// write returns the record as a line, or nothing if its level is not shown.
func (f componentFormatter) write(e *logrus.Entry) ([]byte, error) {
	if e.Level > f.level {
		return nil, nil
	}
	return f.Formatter.Format(e)
}

// isCompacted knows the message of kine's watches by its ends: the error is not kept apart in the record.
func isCompacted(message string) bool {
	return strings.HasPrefix(message, "Failed to list ") && strings.HasSuffix(message, ": "+server.ErrCompacted.Error())
}

// isToBeCreated recognizes the warning that MySQL has no such database yet, by the number of MySQL's error.
func isToBeCreated(message string) bool {
	return strings.HasPrefix(message, "failed to check existence of database ") && strings.Contains(message, ": Error 1049 ")
}
