package house

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var nameOfTest = regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w+`)

// TestPagesNameTestsThatExist: every test that a page of docs/ names is defined somewhere in the checkout.
func TestPagesNameTestsThatExist(t *testing.T) {
	root := filepath.Join("..", "..")
	var defined []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if path != root && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		defined = append(defined, testsIn(t, rel)...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, page := range pages {
		raw, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range nameOfTest.FindAllString(string(raw), -1) {
			named++
			if !slices.Contains(defined, name) {
				t.Errorf("docs/%s names %s, and there is no such test", filepath.Base(page), name)
			}
		}
	}
	if named < 100 {
		t.Fatalf("found only %d names of tests in docs/", named)
	}
}
