package walkthrough

import (
	"os"
	"strings"
	"testing"
)

// A step is what one prompt of a page shows: a command, and what it prints.
type step struct {
	page    string
	line    int
	command string
	// output is what the page shows; "" is not compared: the page shows nothing.
	output string
}

// steps returns those of a page's console blocks:
//
//	```console
//	$ a command
//	> and its further lines
//	what it prints
//	```
func steps(t *testing.T, path string) (all []step) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	inside := false
	for i, line := range strings.Split(string(raw), "\n") {
		if strings.HasPrefix(line, "```") {
			inside = line == "```console"
			continue
		}
		if !inside {
			continue
		}
		if command, is := strings.CutPrefix(line, "$ "); is {
			all = append(all, step{page: path, line: i + 1, command: command + "\n"})
			continue
		}
		if len(all) == 0 {
			t.Fatalf("%s:%d: no command has printed this", path, i+1)
		}
		last := &all[len(all)-1]
		if command, is := strings.CutPrefix(line, "> "); is && last.output == "" {
			last.command += command + "\n"
		} else {
			last.output += line + "\n"
		}
	}
	if len(all) == 0 {
		t.Fatalf("%s has no commands", path)
	}
	return all
}
