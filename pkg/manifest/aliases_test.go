package manifest

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestAliasesAreBounded: a small file cannot fill the memory, whether its aliases name much or name each other.
func TestAliasesAreBounded(t *testing.T) {
	const head = anObject + "data:\n"
	nested := head + "  a0: &a0 [" + strings.Repeat("x, ", 10) + "]\n"
	for i := range 9 {
		before, now := "*a"+string(rune('0'+i)), "a"+string(rune('1'+i))
		nested += "  " + now + ": &" + now + " [" + strings.Repeat(before+", ", 10) + "]\n"
	}
	for name, text := range map[string]string{
		"a long value":                     head + "  a: &a " + strings.Repeat("x", 1<<20) + "\n  b: [" + strings.Repeat("*a, ", 100) + "]\n",
		"aliases of aliases":               nested,
		"and a document of another kind":   anObject + "---\n" + nested,
		"and a document before it in JSON": `{"apiVersion": "v1", "kind": "A"}` + "\n---\n" + nested,
	} {
		path := filepath.Join(t.TempDir(), "file.yaml")
		write(t, path, text)
		if _, err := Load(t.Context(), []string{path}, false); err == nil || !strings.Contains(err.Error(), "more than 16 MiB") {
			t.Errorf("%s: %v", name, err)
		}
	}
	path := filepath.Join(t.TempDir(), "file.yaml")
	write(t, path, head+"  a: &a "+strings.Repeat("x", 1<<10)+"\n  b: ["+strings.Repeat("*a, ", 100)+"]\n  script: 'a && b *'\n")
	if set, err := Load(t.Context(), []string{path}, false); err != nil || len(set.Files[0].Objects) != 1 {
		t.Errorf("few aliases: %v", err)
	}
}
