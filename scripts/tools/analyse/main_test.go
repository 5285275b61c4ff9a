package main

import (
	"os/exec"
	"regexp"
	"slices"
	"testing"
)

// TestAnalyzersAreThoseOfVet: a new Go may add some.
func TestAnalyzersAreThoseOfVet(t *testing.T) {
	help, err := exec.Command("go", "tool", "vet", "help").Output()
	if err != nil {
		t.Fatal(err)
	}
	var goes, ours []string
	for _, m := range regexp.MustCompile(`(?m)^    ([a-z]+) +\S`).FindAllSubmatch(help, -1) {
		goes = append(goes, string(m[1]))
	}
	for _, a := range vet {
		ours = append(ours, a.Name)
	}
	slices.Sort(goes)
	slices.Sort(ours)
	if len(goes) < 30 || !slices.Equal(goes, ours) {
		t.Errorf("go vet has %q, this command %q", goes, ours)
	}
}
