package service

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// environment returns the content of the service's environment file: its lines stay, and REAP_ variables that are
// given now replace theirs.
func (p place) environment(given []string) (string, error) {
	text, err := readOptional(p.at(p.envFile))
	if err != nil {
		return "", err
	}
	if !isFile(p.at(p.envFile)) {
		text = "# Settings of " + p.service + " as REAP_... variables, for example REAP_LOG_LEVEL=\"debug\".\n" +
			"# Restart the service after a change. Readable by root alone: it may hold passwords.\n"
	}
	for _, variable := range given {
		name, value, _ := strings.Cut(variable, "=")
		if !isSetting(name) {
			continue
		}
		if err := oneLine(value); err != nil {
			return "", fmt.Errorf("%s %w, which an environment file cannot hold", name, err)
		}
		text = assign(text, name, name+"="+environmentQuote(value))
	}
	return text, nil
}

func isSetting(name string) bool {
	rest, is := strings.CutPrefix(name, "REAP_")
	return is && !strings.ContainsFunc(rest, func(r rune) bool { return !plain(r, "_") })
}

// assign makes a line the only one for a name. Where it is that already nothing changes: the order in which
// variables come is nothing to restart a service for.
func assign(text, name, line string) string {
	var rest strings.Builder
	found, same := 0, 0
	for l := range strings.Lines(text) {
		if strings.HasPrefix(l, name+"=") {
			found++
			if strings.TrimSuffix(l, "\n") == line {
				same++
			}
			continue
		}
		rest.WriteString(l)
		if !strings.HasSuffix(l, "\n") {
			rest.WriteByte('\n')
		}
	}
	if found == 1 && same == 1 {
		return text
	}
	return rest.String() + line + "\n"
}

// variables returns the variables that the text of an environment file sets, as NAME=value.
func variables(text string) (all []string) {
	for line := range strings.Lines(text) {
		name, value, is := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		if is && isSetting(name) {
			all = append(all, name+"="+environmentUnquote(value))
		}
	}
	return all
}

// setting returns the last value of a name in the text of an environment file.
func setting(text, name string) (value string) {
	for line := range strings.Lines(text) {
		if v, is := strings.CutPrefix(strings.TrimSuffix(line, "\n"), name+"="); is {
			value = environmentUnquote(v)
		}
	}
	return value
}

// readOptional returns the content of a file, and nothing if there is none.
func readOptional(path string) (string, error) {
	raw, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return string(raw), nil
}
