package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// levels are the methods of a log that warn or say that something went wrong.
var levels = []string{"Warn", "Warnf", "Warnln", "Warning", "Warningf", "Error", "Errorf", "Errorln", "Fatal", "Fatalf", "Panic", "Panicf"}

// passedOn are the places that log a message which they were given.
var passedOn = []string{
	"pkg/gc/tell.go",    // of an event, which docs/events.md has with its remedy
	"pkg/cli/server.go", // the error that ends the server
}

// TestEveryWarningHasARemedy in docs/operations.md, and every remedy there is for a warning that there is.
func TestEveryWarningHasARemedy(t *testing.T) {
	messages := warnings(t)
	if len(messages) < 15 {
		t.Fatalf("found only %d warnings", len(messages))
	}
	mustMatch(t, "## Warnings and errors in the log", messages)
}

// mustMatch holds the first column of a section's table against what the source has: text to place.
func mustMatch(t *testing.T, section string, source map[string]string) {
	t.Helper()
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(doc), section+"\n")
	if !found {
		t.Fatalf("docs/operations.md has no section %q", section)
	}
	table, _, _ = strings.Cut(table, "\n## ")
	remedies := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|([^|]+)\\|([^|]+)\\|$").FindAllStringSubmatch(table, -1) {
		remedies[row[1]] = true
		if len(strings.TrimSpace(row[2])) < 10 || len(strings.TrimSpace(row[3])) < 5 {
			t.Errorf("docs/operations.md does not say what %q means, or what to do", row[1])
		}
	}
	for text, place := range source {
		if !remedies[text] {
			t.Errorf("%s: docs/operations.md, %q, has no remedy for %q", place, section, text)
		}
	}
	for text := range remedies {
		if _, used := source[text]; !used {
			t.Errorf("docs/operations.md, %q: nothing says %q", section, text)
		}
	}
}

// warnings returns what the source logs at warn or worse, each with its place. Events have their remedies beside them in
// the source.
func warnings(t *testing.T) map[string]string {
	t.Helper()
	messages := map[string]string{}
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(filepath.Join(root, "pkg"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			s, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			place := rel + ":" + strconv.Itoa(files.Position(call.Pos()).Line)
			if slices.Contains(levels, s.Sel.Name) && isLog(s.X) && !slices.Contains(passedOn, rel) {
				note(t, messages, place, text(f, call.Args[0]))
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return messages
}

func note(t *testing.T, found map[string]string, place, text string) {
	t.Helper()
	if text == "" {
		t.Errorf("%s: what it says is no constant; see TestEveryWarningHasARemedy", place)
		return
	}
	found[text] = place
}

// isLog is true for an expression that is a log of ours: logrus itself, something called log, or one of these with fields.
func isLog(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name == "logrus" || strings.HasSuffix(strings.ToLower(e.Name), "log")
	case *ast.SelectorExpr:
		return strings.HasSuffix(strings.ToLower(e.Sel.Name), "log")
	case *ast.CallExpr:
		s, ok := e.Fun.(*ast.SelectorExpr)
		return ok && (s.Sel.Name == "logged" || strings.HasPrefix(s.Sel.Name, "With") && isLog(s.X))
	}
	return false
}

// text returns what an expression says if it is a literal, several of them joined, or a constant of the same file.
func text(f *ast.File, e ast.Expr) (found string) {
	switch e := e.(type) {
	case *ast.BasicLit:
		found, _ = strconv.Unquote(e.Value)
	case *ast.BinaryExpr:
		if x, y := text(f, e.X), text(f, e.Y); x != "" && y != "" {
			found = x + y
		}
	case *ast.Ident:
		ast.Inspect(f, func(n ast.Node) bool {
			v, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			for i, name := range v.Names {
				if name.Name == e.Name && i < len(v.Values) {
					if l, ok := v.Values[i].(*ast.BasicLit); ok {
						found, _ = strconv.Unquote(l.Value)
					}
				}
			}
			return true
		})
	}
	return found
}

// TestWarningsAreFound in every form in which the source writes them.
func TestWarningsAreFound(t *testing.T) {
	const source = `package p
const said = "c"
func f() {
	logrus.Warn("a")
	x.log.WithError(err).WithField("k", 1).Error("b")
	log.Warn(said)
	log.Warn("e" +
		"f")
	h.auditLog.Warnf("d %s", e)
	fmt.Errorf("no")
	http.Error(w, "no", 1)
	err.Error("no")
}`
	f, err := parser.ParseFile(token.NewFileSet(), "p.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	ast.Inspect(f, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if s, ok := call.Fun.(*ast.SelectorExpr); ok && slices.Contains(levels, s.Sel.Name) && isLog(s.X) {
				got = append(got, text(f, call.Args[0]))
			}
		}
		return true
	})
	if want := []string{"a", "b", "c", "ef", "d %s"}; !slices.Equal(got, want) {
		t.Errorf("found %q, not %q", got, want)
	}
}
