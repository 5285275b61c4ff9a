package house

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	placeOfAnswer = regexp.MustCompile(`\]\((docs/[a-z-]+\.md)\)((?:,| and| \*[^*]+\*)*)`)
	section       = regexp.MustCompile(`\*([^*]+)\*`)
)

// TestAnswersAreWhereContributingSays: the table of questions in CONTRIBUTING.md names pages, and headings in them by their
// first words.
func TestAnswersAreWhereContributingSays(t *testing.T) {
	root := filepath.Join("..", "..")
	raw, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(raw), "\n## Ten questions\n")
	if !found {
		t.Fatal("CONTRIBUTING.md has no section \"Ten questions\"")
	}
	table, _, _ = strings.Cut(table, "\n## ")
	questions, sections := 0, 0
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "| ") || !strings.Contains(line, "?") {
			continue
		}
		questions++
		for _, place := range placeOfAnswer.FindAllStringSubmatch(line, -1) {
			page, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(place[1])))
			if err != nil {
				t.Error(err)
				continue
			}
			for _, s := range section.FindAllStringSubmatch(place[2], -1) {
				sections++
				if !regexp.MustCompile(`(?m)^#+ ` + regexp.QuoteMeta(s[1])).Match(page) {
					t.Errorf("CONTRIBUTING.md: %s has no section %q", place[1], s[1])
				}
			}
		}
	}
	if questions != 10 || sections < 10 {
		t.Errorf("found %d questions and %d sections with their answers, want ten questions and at least ten sections", questions, sections)
	}
}
