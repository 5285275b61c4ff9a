package service

import (
	"errors"
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
		return nil, fmt.Errorf("only `reap server` is installed as a service: its arguments start with -, and %q does not", given[0])
	}
	for _, argument := range given {
		if strings.Contains(argument, "\n") {
			return nil, errors.New("an argument with a line break cannot go into a service")
		}
		if strings.HasPrefix(argument, "--datastore-endpoint") {
			p.say("note: every local user can read the arguments of a service; REAP_DATASTORE_ENDPOINT keeps a password from them")
		}
	}
	return given, nil
}

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
