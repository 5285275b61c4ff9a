package config

import (
	"fmt"
	"strings"

	"github.com/xrash/smetrics"
)

// Nearest returns the candidate that word is most likely a misspelling of, or "" if it is of none. A word that only begins like
// a candidate is another word and no misspelling: --all is not --all-namespaces, which does more, nor is remove restore. It
// ignores underscores, leading dashes and letter case.
func Nearest(word string, candidates []string) string {
	// Boost and prefix are Winkler's own values; below the threshold a suggestion confuses more than it helps.
	const boost, prefix, threshold = 0.7, 4, 0.75

	word = strings.ToLower(strings.ReplaceAll(strings.TrimLeft(word, "-"), "_", "-"))
	nearest, best := "", threshold
	for _, c := range candidates {
		// One slip, or two in a longer word; a transposition counts as two. warning may begin with warn, which says less.
		if !strings.HasPrefix(word, c) && smetrics.WagnerFischer(word, c, 1, 1, 1) > min(2, len(word)/2) {
			continue
		}
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
