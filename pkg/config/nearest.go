package config

import (
	"fmt"
	"strings"

	"github.com/xrash/smetrics"
)

// Nearest returns the candidate that word was most likely meant to be, or "" if none is close.
// Underscores, leading dashes and letter case do not count.
func Nearest(word string, candidates []string) string {
	// The boost and prefix are Winkler's own; below the threshold a suggestion puzzles more than it helps.
	const boost, prefix, threshold = 0.7, 4, 0.75

	word = strings.ToLower(strings.ReplaceAll(strings.TrimLeft(word, "-"), "_", "-"))
	nearest, best := "", threshold
	for _, c := range candidates {
		if d := smetrics.JaroWinkler(word, c, boost, prefix); d > best {
			nearest, best = c, d
		}
	}
	return nearest
}

// didYouMean is a suggestion to put behind the word in an error, or nothing.
func didYouMean(word string, candidates []string) string {
	if n := Nearest(word, candidates); n != "" {
		return fmt.Sprintf(" (did you mean %q?)", n)
	}
	return ""
}
