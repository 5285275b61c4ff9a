package service

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestSystemdQuote(t *testing.T) {
	for _, tc := range []struct {
		words []string
		want  string
	}{
		{nil, ""},
		{[]string{"--disable=gc", "--tls-san", "a.example.com"}, "--disable=gc --tls-san a.example.com"},
		{[]string{"odd $name%"}, `"odd $$name%%"`},
		{[]string{`a"b\c`}, `"a\"b\\c"`},
		{[]string{""}, `""`},
		{[]string{"it's", ";", "é"}, `"it's" ";" "é"`},
		{[]string{"postgres://u:p@h:5432/db?sslmode=x"}, `"postgres://u:p@h:5432/db?sslmode=x"`},
	} {
		if got := systemdQuote(tc.words...); got != tc.want {
			t.Errorf("systemdQuote(%q) = %s, want %s", tc.words, got, tc.want)
		}
	}
}

func TestShellSplit(t *testing.T) {
	for _, tc := range []struct {
		line string
		want []string
	}{
		{"", nil},
		{" \t ", nil},
		{"a b", []string{"a", "b"}},
		{"'a b' ''", []string{"a b", ""}},
		{`'it'\''s'`, []string{"it's"}},
		{`"a \"b\" \$c \d" e\ f`, []string{`a "b" $c \d`, "e f"}},
	} {
		if got, err := shellSplit(tc.line); err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("shellSplit(%s) = %q, %v; want %q", tc.line, got, err, tc.want)
		}
	}
	for _, line := range []string{"'a", `"a`, `a\`, `"a\`} {
		if got, err := shellSplit(line); err == nil {
			t.Errorf("shellSplit(%s) = %q, want an error", line, got)
		}
	}
}

// askShell returns what sh makes of a script, as words that each end with a NUL.
func askShell(t *testing.T, script string) []string {
	t.Helper()
	out, err := exec.Command("sh", "-c", script).Output()
	if err != nil {
		t.Fatalf("sh -c %q: %v", script, err)
	}
	if len(out) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}

// passable reports whether text can be an argument of a service.
func passable(text string) bool { return oneLine(text) == nil }

func FuzzShellQuote(f *testing.F) {
	f.Add("it's", "odd $name% `x` \"y\" \\")
	f.Add("", "\t*?[a]~#;&|<>(){}!")
	f.Add("'", "'\\''")
	f.Fuzz(func(t *testing.T, a, b string) {
		if !passable(a) || !passable(b) {
			t.Skip("no text of one line")
		}
		words := []string{a, b}
		quoted := shellQuote(words...)
		if got := askShell(t, `printf '%s\0' `+quoted); !slices.Equal(got, words) {
			t.Errorf("sh reads %q from %s, want %q", got, quoted, words)
		}
		if got, err := shellSplit(quoted); err != nil || !slices.Equal(got, words) {
			t.Errorf("shellSplit reads %q (%v) from %s, want %q", got, err, quoted, words)
		}
		// OpenRC's script quotes once more what its supervisor evaluates.
		again := shellQuote("server " + quoted)
		if got := askShell(t, "eval set -- "+again+`; printf '%s\0' "$@"`); !slices.Equal(got, append([]string{"server"}, words...)) {
			t.Errorf("sh evaluates %s to %q, want server and %q", again, got, words)
		}
	})
}

func FuzzEnvironmentQuote(f *testing.F) {
	f.Add(`a"b$c` + "`d\\e")
	f.Add(`\`)
	f.Add(`\\"`)
	f.Fuzz(func(t *testing.T, value string) {
		if !passable(value) {
			t.Skip("no text of one line")
		}
		quoted := environmentQuote(value)
		if got := askShell(t, "REAP_X="+quoted+`; printf '%s\0' "$REAP_X"`); !slices.Equal(got, []string{value}) {
			t.Errorf("sh reads %q from %s, want %q", got, quoted, value)
		}
		if got := setting("REAP_X=\"other\"\nREAP_X="+quoted+"\nREAP_XY=\"other\"\n", "REAP_X"); got != value {
			t.Errorf("setting reads %q from %s, want %q", got, quoted, value)
		}
	})
}

// FuzzSystemdQuote unquotes as systemd.service(5) says: within double quotes a backslash escapes, %% is %, $$ is $.
func FuzzSystemdQuote(f *testing.F) {
	f.Add(`odd $name% "x" \`)
	f.Add("")
	f.Add("plain=1")
	f.Fuzz(func(t *testing.T, word string) {
		if !passable(word) {
			t.Skip("no text of one line")
		}
		quoted := systemdQuote(word)
		inner, opened := strings.CutPrefix(quoted, `"`)
		inner, closed := strings.CutSuffix(inner, `"`)
		if opened != closed || !opened && strings.ContainsAny(quoted, "\"'\\$% \t;") {
			t.Fatalf("%q is written %s", word, quoted)
		}
		var got strings.Builder
		for i := 0; i < len(inner); i++ {
			if strings.IndexByte(`\%$`, inner[i]) >= 0 {
				if i+1 >= len(inner) || inner[i] == '\\' && !strings.ContainsRune(`\"`, rune(inner[i+1])) || inner[i] != '\\' && inner[i+1] != inner[i] {
					t.Fatalf("%q is written %s", word, quoted)
				}
				i++
			} else if inner[i] == '"' {
				t.Fatalf("%q is written %s", word, quoted)
			}
			got.WriteByte(inner[i])
		}
		if got.String() != word {
			t.Errorf("systemd reads %q from %s, want %q", got.String(), quoted, word)
		}
	})
}
