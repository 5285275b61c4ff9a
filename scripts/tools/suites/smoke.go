package main

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// history is how many commits back a change counts as one of the last, where there is no tag.
const history = 20

// smoke leaves of rows whose subject has not changed the smoke test alone, and returns their names.
func smoke(rows []row, changed func(paths []string) (bool, error)) (left []row, smoked []string, err error) {
	left = slices.Clone(rows)
	for i, r := range left {
		if r.Smoke == "" {
			continue
		}
		yes, err := changed(r.Changed)
		if err != nil {
			return nil, nil, fmt.Errorf("looking whether the subject of %s has changed: %w", r.Name, err)
		}
		if !yes {
			left[i].Run = r.Smoke
			smoked = append(smoked, r.Name)
		}
	}
	return left, smoked, nil
}

// changedIn returns whether files below paths are other in a checkout than they were at its last tag, or some commits ago. Where git knows neither,
// as in a clone without history, everything has changed.
func changedIn(root string) func(paths []string) (bool, error) {
	git := func(args ...string) (string, error) {
		cmd := exec.Command("git", args...)
		cmd.Dir = root
		out, err := output(cmd)
		return strings.TrimSpace(out), err
	}
	base, err := git("describe", "--tags", "--abbrev=0")
	if err != nil {
		base, err = git("rev-parse", "--verify", "--quiet", fmt.Sprintf("HEAD~%d", history))
	}
	return func(paths []string) (bool, error) {
		if err != nil {
			return true, nil
		}
		changed, err := git(append([]string{"diff", "--name-only", base, "--"}, paths...)...)
		if err != nil || changed != "" {
			return true, err
		}
		added, err := git(append([]string{"ls-files", "--others", "--exclude-standard", "--"}, paths...)...)
		return added != "", err
	}
}
