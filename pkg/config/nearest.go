package config

import (
	"fmt"
	"strings"

	"github.com/xrash/smetrics"
)

// Nearest returns the candidate most similar to word, or "" if none is close. It ignores underscores, leading
// dashes and letter case.
func Nearest(word string, candidates []string) string {
	// Boost and prefix are Winkler's own values; below the threshold a suggestion confuses more than it helps.
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

// didYouMean returns a suggestion to append to the word in an error, or "".
func didYouMean(word string, candidates []string) string {
	if n := Nearest(word, candidates); n != "" {
		return fmt.Sprintf(" (did you mean %q?)", n)
	}
	return ""
}
