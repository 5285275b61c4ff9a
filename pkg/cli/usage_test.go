package cli

import (
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/reap-dev/reap/pkg/config"
)

// harms is found in the usage of what deletes, overwrites, reaches further or does not ask.
var harms = regexp.MustCompile(`(?i)delet|remov|restor|replace the file|every |lost|without asking|without a question|rewrit|convert|ends? a pause|free pages|` +
	`take a stuck|all writes|new UIDs|install|new keys|below the directories`)

// harmless are names with such a usage that harm nothing: they show, wait, or say where or when.
var harmless = []string{
	"plan", "server", "status", "tree", "lint", "why", "envtest", "service", "snapshot", "certificate", "db", "limit", "wait", "watch",
	"snapshot-dir", "snapshot-interval", "interval", "dry-run", "help", "reason", "disable", "gc-ignore", "gc-check", "gc-resync", "gc-workers",
	"selector", "output", "to", "namespace", "save", "list", "use", "print", "root", "systemd-dir", "bin-dir", "skip-links", "skip-start", "skip-enable",
	"data-dir", "config", "kube-apiserver-arg", "gc-cycle-detection", "gc-orphan-timeout", "gc-sync-timeout", "gc-sync-timeout-per-dependent",
	"server-side", "filename", "name", "check", "kubectl", "completion", "timeout", "format", "datastore-reserve", "bin-dir-made",
	"sqlite-synchronous", "write-kubeconfig", "tls-san", "bind-address", "https-listen-port", "export", "stats", "version", "healthcheck",
}

// menu is the words that may be meant in one place of a command line.
type menu struct {
	where string
	names []string
	usage map[string]string
}

// menus are the commands and the flags of every command of the program.
func menus(name string, commands []*cli.Command, flags []cli.Flag) (all []menu) {
	words := func(where string) menu { return menu{where: where, usage: map[string]string{}} }
	if len(flags) > 0 {
		m := words(name + "'s flags")
		for _, f := range flags {
			for _, n := range f.Names() {
				m.names = append(m.names, n)
				if d, ok := f.(cli.DocGenerationFlag); ok {
					m.usage[n] = d.GetUsage()
				}
			}
		}
		all = append(all, m)
	}
	if len(commands) > 0 {
		m := words(name + "'s commands")
		for _, c := range commands {
			for _, n := range c.Names() {
				m.names = append(m.names, n)
				m.usage[n] = c.Usage
			}
			all = append(all, menus(name+" "+c.Name, c.Subcommands, c.Flags)...)
		}
		all = append(all, m)
	}
	return all
}

// slips are the words one slip away from a word: a letter left out, put in, mistaken, or two exchanged.
func slips(word string) (all []string) {
	for i := range len(word) {
		for _, letter := range "aelmorstvy-" {
			all = append(all, word[:i]+string(letter)+word[i+1:], word[:i]+string(letter)+word[i:])
		}
	}
	return append(append(all, lost(word)...), word+"s", word+"ed")
}

// lost are the words without one letter, and those with two exchanged.
func lost(word string) (all []string) {
	for i := range len(word) {
		all = append(all, word[:i]+word[i+1:])
		if i > 0 {
			all = append(all, word[:i-1]+word[i:i+1]+word[i-1:i]+word[i+1:])
		}
	}
	return all
}

// elsewhere are words that users of kubectl and of other programs know.
var elsewhere = strings.Fields(`rm remove del destroy drop erase purge clean prune apply create get describe edit logs exec restore reset rollback revert
	start stop restart run now force grace-period ignore-not-found field-selector interactive dry-run raw overwrite replace keep-going quiet verbose
	all all-namespaces yes no ask confirm noconfirm wait watch recursive keep new old save load show ls list info check verify repair vacuum`)

// TestNoSuggestionDoesHarm walks over all commands and flags of the program, misspells each in one and in two ways, and asks what is
// suggested: what could do harm is suggested only for a misspelling of its own name.
func TestNoSuggestionDoesHarm(t *testing.T) {
	app := newApp(io.Discard, io.Discard, nil)
	asked := 0
	for _, m := range menus("reap", app.Commands, app.Flags) {
		for _, n := range m.names {
			if len(n) > 1 && harms.MatchString(m.usage[n]) && !config.Harmful(n) && !slices.Contains(harmless, n) {
				t.Errorf("%s: %s (%q) is neither among config's harmful names nor among the harmless of this test", m.where, n, m.usage[n])
			}
		}
		if !slices.ContainsFunc(m.names, config.Harmful) {
			continue
		}
		ask := func(meant, word string) {
			asked++
			got := config.Nearest(word, m.names)
			if config.Harmful(got) && got != meant && !slices.Contains(m.names, word) {
				t.Errorf("%s: %s for %q, which may be meant for %s", m.where, got, word, meant)
			}
		}
		for _, n := range m.names {
			if len(n) == 1 {
				continue
			}
			for _, once := range slips(n) {
				ask(n, once)
			}
			for _, once := range lost(n) {
				for _, twice := range lost(once) {
					ask(n, twice)
				}
			}
		}
		for _, word := range elsewhere {
			ask(word, word)
		}
	}
	if asked < 10_000 {
		t.Errorf("asked for %d words: the walk has missed most of the program", asked)
	}
}

// TestSuggestionsOfDelete: what a user of kubectl types.
func TestSuggestionsOfDelete(t *testing.T) {
	for _, tc := range []struct{ line, want string }{
		{"snapshot remov", `unknown command "remov"; see`},
		{"certificate rotat", `unknown command "rotat" (did you mean "rotate"?)`},
		{"snapshot delete", `unknown command "delete"; see`},
		{"snapshot reset", `unknown command "reset"; see`},
		{"delete widgets --all-namespace", `unknown flag --all-namespace (did you mean --all-namespaces?)`},
		{"delete widgets --now", `unknown flag --now; see`},
		{"delete widgets --al --all-namespaces", `unknown flag --al`},
	} {
		if got := reap(t, nil, strings.Fields(tc.line)...); got.code != exitUsage || !strings.Contains(got.stderr, tc.want) {
			t.Errorf("%s: exit code %d, %s, want %s", tc.line, got.code, got.stderr, tc.want)
		}
	}
}
