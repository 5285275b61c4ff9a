package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// looks are the commands that show what the collector would delete, and whether they are to look everywhere.
var looks = regexp.MustCompile(`\breap (?:lint|relink)\b( -A\b)?`)

// TestWhoeverResumesHasLookedEverywhere: where the source or a page advises reap lint or reap relink before reap resume, the
// command has -A. Without it the command looks at one namespace, and the collector goes on in all.
func TestWhoeverResumesHasLookedEverywhere(t *testing.T) {
	root := filepath.Join("..", "..")
	advice := map[string]int{}
	judge := func(path string, texts []string) {
		for _, text := range texts {
			if !strings.Contains(text, "reap resume") {
				continue
			}
			for _, m := range looks.FindAllStringSubmatch(text, -1) {
				advice[path]++
				if m[1] == "" {
					t.Errorf("%s: %q looks at one namespace before reap resume in\n%s", path, m[0], text)
				}
			}
		}
	}
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, filepath.Join(root, "README.md")) {
		raw, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		judge(filepath.Base(page), passages(string(raw)))
	}
	err = filepath.WalkDir(filepath.Join(root, "pkg"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		judge(strings.TrimPrefix(filepath.ToSlash(path), "../../"), expressions(f))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for path, least := range map[string]int{
		"pkg/server/hold.go": 2, "pkg/cli/snapshot.go": 3, "pkg/cli/relink.go": 1, "pkg/gc/events.go": 1, "pkg/gc/report/text.go": 1,
		"snapshots.md": 2, "events.md": 1, "operations.md": 3, "cli.md": 3,
	} {
		if advice[path] < least {
			t.Errorf("%s: found %d such commands, want at least %d", path, advice[path], least)
		}
	}
}

// passages returns the paragraphs, blocks and cells of a page.
func passages(page string) (all []string) {
	for block := range strings.SplitSeq(page, "\n\n") {
		var prose strings.Builder
		for line := range strings.Lines(block) {
			if strings.HasPrefix(line, "|") {
				all = append(all, strings.Split(line, "|")...)
			} else {
				prose.WriteString(line)
			}
		}
		all = append(all, prose.String())
	}
	return all
}

// expressions returns the text of each expression that is a literal or a sum, without what is no literal.
func expressions(f *ast.File) (all []string) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n.(type) {
		case *ast.BasicLit, *ast.BinaryExpr:
		default:
			return true
		}
		var b strings.Builder
		ast.Inspect(n, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				text, _ := strconv.Unquote(l.Value) // the parser has accepted it
				b.WriteString(text)
			}
			return true
		})
		all = append(all, b.String())
		return false
	})
	return all
}
