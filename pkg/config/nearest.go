package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/xrash/smetrics"
)

// Nearest returns the candidate that word is most likely a misspelling of, or "" if it is of none. A word that only begins like
// a candidate is another word and no misspelling: --all is not --all-namespaces, which does more, nor is remove restore. A candidate
// that could do harm is returned only if the word can hardly be meant for another one: see Harmful. A single letter is
// never returned: it is no misspelling of a word. Nearest ignores underscores, leading dashes and letter case.
func Nearest(word string, candidates []string) string {
	// Boost and prefix are Winkler's own values; below the threshold a suggestion confuses more than it helps.
	const boost, prefix, threshold = 0.7, 4, 0.75

	word = strings.ToLower(strings.ReplaceAll(strings.TrimLeft(word, "-"), "_", "-"))
	nearest, best := "", threshold
	for _, c := range candidates {
		if len(c) == 1 || Harmful(c) && !unmistakable(word, c, candidates) {
			continue
		}
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

// harmful are the names of commands and flags that delete, overwrite, let something else delete, widen what a command works on, or
// do it without asking. A new one of that kind belongs here.
var harmful = []string{
	"delete", "release", "relink", "restore", "remove", "prune", "compact", "convert", "rotate", "pause", "resume", "install", "uninstall",
	"all", "all-namespaces", "recursive", "yes", "force", "purge", "cascade", "finalizer", "retain",
	"accept-revision", "new-store", "gc-after-restore", "gc-guard", "snapshot-retain", "without-pki",
}

// Harmful is true of the name of a command or flag that must not be suggested to a user who may have meant another one.
func Harmful(name string) bool { return slices.Contains(harmful, name) }

// unmistakable is true if a word is one slip away from a candidate, and at least three from all others, none of which
// contains it: uninstall with two slips may look like install with one.
func unmistakable(word, candidate string, candidates []string) bool {
	const slips, apart = 1, 3
	if smetrics.WagnerFischer(word, candidate, 1, 1, 1) > slips {
		return false
	}
	return !slices.ContainsFunc(candidates, func(c string) bool {
		return c != candidate && len(c) > 1 && (strings.Contains(c, candidate) || smetrics.WagnerFischer(word, c, 1, 1, 1) < apart)
	})
}

// didYouMean returns a suggestion to append to the word in an error, or "".
func didYouMean(word string, candidates []string) string {
	if n := Nearest(word, candidates); n != "" {
		return fmt.Sprintf(" (did you mean %q?)", n)
	}
	return ""
}
