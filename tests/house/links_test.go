package house

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link       = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	namedPage  = regexp.MustCompile("`((?:docs|reaptest|deploy|tests)/[A-Za-z0-9_./-]+\\.(?:md|yaml|svg))`")
	heading    = regexp.MustCompile(`(?m)^#{1,6} (.+)$`)
	fence      = regexp.MustCompile("(?ms)^```.*?^```")
	notInASlug = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// slug is the anchor of a heading, as GitHub and the site make it.
func slug(heading string) string {
	return strings.ReplaceAll(notInASlug.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), ""), " ", "-")
}

// TestLinksOfPagesLeadSomewhere: to a file that is there, and a heading in it; so do the names of pages in backquotes.
// Links to other sites are not followed: the gate has no network.
func TestLinksOfPagesLeadSomewhere(t *testing.T) {
	root := filepath.Join("..", "..")
	cmd := exec.Command("git", "ls-files", "-co", "--exclude-standard", "*.md")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("listing the pages: %v", err)
	}
	anchors := map[string]map[string]bool{}
	text := map[string]string{}
	for _, page := range strings.Fields(string(out)) {
		raw, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			continue // deleted, not yet committed
		}
		text[page] = fence.ReplaceAllString(string(raw), "")
		anchors[page] = map[string]bool{}
		for _, m := range heading.FindAllStringSubmatch(text[page], -1) {
			anchors[page][slug(m[1])] = true
		}
	}
	if len(text) < 10 {
		t.Fatalf("only %d pages were found", len(text))
	}
	for page, content := range text {
		for _, m := range link.FindAllStringSubmatch(content, -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			path, anchor, _ := strings.Cut(m[1], "#")
			target := page
			if path != "" {
				target = filepath.ToSlash(filepath.Join(filepath.Dir(page), path))
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
			} else if anchor != "" && anchors[target] != nil && !anchors[target][anchor] {
				t.Errorf("%s links to %s: there is no such heading", page, m[1])
			}
		}
		for _, m := range namedPage.FindAllStringSubmatch(content, -1) {
			if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
				t.Errorf("%s names %s: %v", page, m[1], err)
			}
		}
	}
}
