package service

import (
	"fmt"
	"strings"
)

// arguments returns those of `reap server`: the given ones, or those that the installed service has.
func (p place) arguments(given []string, definition string) ([]string, error) {
	if len(given) == 0 {
		kept, err := shellSplit(recorded(definition, "# arguments: "))
		if err != nil {
			return nil, fmt.Errorf("reading the arguments of the installed service: %w: give all arguments anew", err)
		}
		if len(kept) > 0 { // not shown: they may hold a password
			p.say("keeping the arguments of the installed service")
		}
		given = kept
	} else if given[0] == "server" {
		given = given[1:]
	}
	if len(given) > 0 && !strings.HasPrefix(given[0], "-") {
		return nil, fmt.Errorf("only `reap server` is installed as a service: its arguments start with -, and %.100q does not", given[0])
	}
	bytes := 0
	for n, argument := range given {
		if err := oneLine(argument); err != nil { // not shown, as above
			return nil, fmt.Errorf("argument %d %w, which the definition of a service cannot hold", n+1, err)
		}
		bytes += len(argument)
		if strings.HasPrefix(argument, "--datastore-endpoint") {
			p.say("note: every local user can read the arguments of a service; REAP_DATASTORE_ENDPOINT keeps a password from them")
		}
	}
	if bytes > mostArguments {
		return nil, fmt.Errorf("the arguments have %d bytes, and those of a service may have %d: a configuration file takes more", bytes, mostArguments)
	}
	return given, nil
}

// mostArguments is how many bytes the arguments may have, which quotes make longer. systemd takes no line of 1 MiB.
const mostArguments = 64 << 10

// recorded returns what follows a prefix in the last line of a definition that has it.
func recorded(definition, prefix string) (value string) {
	for line := range strings.Lines(definition) {
		if v, is := strings.CutPrefix(strings.TrimSuffix(line, "\n"), prefix); is {
			value = v
		}
	}
	return value
}

// flagIn returns the last value that arguments give a flag.
func flagIn(arguments []string, flag string) (value string, given bool) {
	for i, argument := range arguments {
		if v, is := strings.CutPrefix(argument, flag+"="); is {
			value, given = v, true
		} else if argument == flag && i+1 < len(arguments) {
			value, given = arguments[i+1], true
		}
	}
	return value, given
}
