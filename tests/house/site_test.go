package house

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	navEntry = regexp.MustCompile(`(?m)^\tnav "[^"]+" ([a-z-]+)$`)
	sitePage = regexp.MustCompile(`(?m)^page \S+\.md ([a-z-]+)$`)
)

// TestEveryPageIsInTheNavigationOnce: the site's navigation, in scripts/site, has one entry for each page of docs/ and for each
// page that the script takes from elsewhere, and no other.
func TestEveryPageIsInTheNavigationOnce(t *testing.T) {
	root := filepath.Join("..", "..")
	script, err := os.ReadFile(filepath.Join(root, "scripts", "site"))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	entries := map[string]int{} // of each page
	for _, page := range pages {
		entries[strings.TrimSuffix(filepath.Base(page), ".md")] = 0
	}
	elsewhere := sitePage.FindAllSubmatch(script, -1)
	for _, m := range elsewhere {
		if _, taken := entries[string(m[1])]; taken {
			t.Errorf("scripts/site makes two pages %s", m[1])
		}
		entries[string(m[1])] = 0
	}
	if len(pages) < 10 || len(elsewhere) < 3 {
		t.Fatalf("found only %d pages in docs/, and %d from elsewhere in scripts/site", len(pages), len(elsewhere))
	}
	for _, m := range navEntry.FindAllSubmatch(script, -1) {
		if _, known := entries[string(m[1])]; !known {
			t.Errorf("the navigation in scripts/site names %s, and there is no such page", m[1])
			continue
		}
		entries[string(m[1])]++
	}
	for page, n := range entries {
		if n != 1 {
			t.Errorf("the navigation in scripts/site has %d entries for the page %s", n, page)
		}
	}
}
