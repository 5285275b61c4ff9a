package config

import "slices"

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
