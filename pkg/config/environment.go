package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

const variablePrefix = "REAP_"

// environment holds the variables of a process, by name.
type environment map[string]string

// newEnvironment makes one of NAME=value; the last value of a name counts.
func newEnvironment(variables []string) environment {
	e := environment{}
	for _, v := range variables {
		name, value, _ := strings.Cut(v, "=")
		e[name] = value
	}
	return e
}

// variable returns the name of an option's environment variable.
func variable(option string) string {
	return variablePrefix + strings.ToUpper(strings.ReplaceAll(option, "-", "_"))
}

// Kubernetes sets these in every pod beside a Service whose name is reap or begins with reap-. A PORT is told from a
// misspelt option by its value, a URL.
var (
	serviceVariable = regexp.MustCompile(`^REAP_(?:[A-Z0-9_]+_)?(?:SERVICE_HOST|SERVICE_PORT(?:_[A-Z0-9_]+)?|PORT_[0-9]+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)$`)
	servicePort     = regexp.MustCompile(`^REAP_(?:[A-Z0-9_]+_)?PORT=(?:tcp|udp|sctp)://`)
)

// foreign reports whether a variable with reap's prefix is not for a server: Kubernetes has set it, or it is for tests. reaptest
// finds the binary with REAP_BINARY.
func foreign(name, value string) bool {
	return name == variablePrefix+"BINARY" || strings.HasPrefix(name, variablePrefix+"TEST_") ||
		serviceVariable.MatchString(name) || servicePort.MatchString(name+"="+value)
}

// ServerVariables returns those of a process's variables, as NAME=value, that a server would take for settings or refuse.
func ServerVariables(variables []string) []string {
	return slices.DeleteFunc(slices.Clone(variables), func(v string) bool {
		name, value, _ := strings.Cut(v, "=")
		return !strings.HasPrefix(name, variablePrefix) || foreign(name, value)
	})
}

// check returns an error for a variable that looks like a setting and is none. An empty one counts as not set.
func (e environment) check() error {
	names := []string{configName}
	for _, o := range (&Server{}).options() {
		names = append(names, o.name)
	}
	for _, name := range slices.Sorted(maps.Keys(e)) {
		word, ours := strings.CutPrefix(name, variablePrefix)
		known := func(option string) bool { return variable(option) == name }
		if !ours || e[name] == "" || foreign(name, e[name]) || slices.ContainsFunc(names, known) {
			continue
		}
		near := ""
		if n := Nearest(word, names); n != "" {
			near = fmt.Sprintf(" (did you mean %s?)", variable(n))
		}
		return fmt.Errorf("unknown variable %s in the environment%s: a setting is REAP_ and the name of a flag in capitals; see 'reap server --help'", name, near)
	}
	return nil
}

// ServerFromEnvironment returns the options of a server that another program starts in the place of kube-apiserver:
// --disable and the options of the collector and the log, as the environment sets them. The other options keep their
// defaults and have no effect there. No configuration file is read: it is for the server of this machine.
func ServerFromEnvironment() (Server, error) {
	s := DefaultServer()
	l := newLoader(slices.DeleteFunc(s.options(), func(o *option) bool {
		return o.name != "disable" && o.category != categoryCollector && o.category != categoryGeneral
	}))
	for _, o := range l.options {
		if given, found := l.given(o, nil); found {
			if err := apply(o, given); err != nil {
				return Server{}, err
			}
		}
	}
	return s, nil
}
