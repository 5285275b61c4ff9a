package walkthrough

import (
	"regexp"
	"slices"
	"strings"
)

// differs is what differs between two runs of the same commands, and what stands in its place.
var differs = []struct {
	match *regexp.Regexp
	with  string
}{
	{regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`), "UID"},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`), "TIME"},
	{regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d `), "TIME "},
	{regexp.MustCompile(`\bweb-[0-9a-z]{6,10}(-[0-9a-z]{5})?\b`), "web-HASH$1"},
	{regexp.MustCompile(`HASH-[0-9a-z]{5}\b`), "HASH-POD"},
	{regexp.MustCompile(`https://127\.0\.0\.1:\d+`), "URL"},
	{regexp.MustCompile(`\bby \S+@[^\s:]+`), "by USER"},
	{regexp.MustCompile(`\b\d+(\.\d+)?/s\b|<1/s`), "RATE"},
	{regexp.MustCompile(`(\b\d+(\.\d+)?(ms|[smhd]))(\d+(ms|[smhd]))*\b`), "AGE"},
	{regexp.MustCompile(`\b(dev|v\d+\.\d+\.\d+(-\S+)?(\+reap)?)(\s|$)`), "VERSION$4"},
	{regexp.MustCompile(` --kubeconfig \S+`), ""},
	{regexp.MustCompile(`(?m)^\d+% \[[=>.]*\] \d+ of .*\n`), ""}, // reap delete says every ten seconds how far it is
	{regexp.MustCompile(`[ \t]+`), " "},
	{regexp.MustCompile(`(?m) $`), ""},
}

var (
	// ended is a row of `reap status` about a cascade that has nothing left to do: it is shown for a while.
	ended  = regexp.MustCompile(` (background|foreground|orphan) +\S+ +\d+ +0 `)
	number = regexp.MustCompile(`\d+`)
)

// normal returns what a command prints, without what differs between two runs.
func normal(command, output string) string {
	status := strings.HasPrefix(command, "reap status")
	if status {
		output = unordered(output)
	}
	for _, d := range differs {
		output = d.match.ReplaceAllString(output, d.with)
	}
	if status {
		output = number.ReplaceAllString(output, "N")
	}
	return strings.TrimSpace(output)
}

// unordered sorts the lines of `reap status`, whose order is not defined, and leaves out cascades that have ended.
func unordered(output string) string {
	lines := slices.DeleteFunc(strings.Split(output, "\n"), ended.MatchString)
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
