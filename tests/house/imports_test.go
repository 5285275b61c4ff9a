// Package house holds the project's layout against what docs/architecture.md
// promises: which package may know which.
package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/reap-dev/reap/"

// may lists, for each package below pkg, the packages of this module that it may
// import. A package that is missing here has not been thought about.
var may = map[string][]string{
	"pkg/cli":         {"pkg/apiserver", "pkg/bound", "pkg/config", "pkg/datastore", "pkg/datastore/dump", "pkg/datastore/outage", "pkg/envtest", "pkg/escape", "pkg/etcdlog", "pkg/export", "pkg/gc/act", "pkg/gc/decide", "pkg/gc/graph", "pkg/gc/lint", "pkg/gc/listing", "pkg/gc/pause", "pkg/gc/plan", "pkg/gc/relink", "pkg/gc/report", "pkg/manifest", "pkg/pki", "pkg/server", "pkg/service", "pkg/snapshot", "pkg/translations"},
	"pkg/config":      {},
	"pkg/server":      {"pkg/apiserver", "pkg/config", "pkg/controllers", "pkg/datastore", "pkg/datastore/dump", "pkg/datastore/outage", "pkg/elect", "pkg/gc", "pkg/gc/pause", "pkg/gc/report", "pkg/pki", "pkg/snapshot"},
	"pkg/pki":         {},
	"pkg/datastore":   {"pkg/datastore/dump", "pkg/datastore/intact", "pkg/datastore/outage", "pkg/datastore/watch"},
	"pkg/apiserver":   {"pkg/datastore/intact", "pkg/pki"},
	"pkg/controllers": {},

	// The log asks it, and the datastore answers.
	"pkg/datastore/outage": {},

	// These have to be initialised before Kubernetes.
	"pkg/etcdlog":      {},
	"pkg/translations": {},

	// Whatever prints imports it.
	"pkg/escape": {},

	// They work on a machine's files, and ask no server.
	"pkg/service": {},
	"pkg/envtest": {},

	// It changes references in files.
	"pkg/manifest": {"pkg/gc/graph"},

	// Both sides of a move of a store import it.
	"pkg/datastore/dump": {},
	"pkg/snapshot":       {"pkg/datastore/dump", "pkg/escape"},
	"pkg/export":         {"pkg/datastore/dump"},

	// It checks objects, and not where they are stored.
	"pkg/datastore/intact": {},

	// It knows a log of changes, and not whose.
	"pkg/datastore/watch": {},

	// These need client-go alone: either wing's clients may be held by them.
	"pkg/bound": {},
	"pkg/elect": {"pkg/bound"},

	// The collector's wing knows nothing of the control plane's: server joins them
	// with a *rest.Config.
	"pkg/gc":         {"pkg/bound", "pkg/gc/act", "pkg/gc/decide", "pkg/gc/graph", "pkg/gc/lint", "pkg/gc/observe", "pkg/gc/pause", "pkg/gc/plan", "pkg/gc/report"},
	"pkg/gc/observe": {"pkg/bound", "pkg/gc/graph"},
	"pkg/gc/act":     {"pkg/gc/graph"},
	"pkg/gc/decide":  {"pkg/gc/graph"},
	"pkg/gc/plan":    {"pkg/gc/decide", "pkg/gc/graph"},
	"pkg/gc/graph":   {},
	"pkg/gc/listing": {"pkg/bound", "pkg/gc/act", "pkg/gc/decide", "pkg/gc/graph", "pkg/gc/lint", "pkg/gc/observe", "pkg/gc/relink"},
	"pkg/gc/lint":    {"pkg/gc/decide", "pkg/gc/graph"},
	"pkg/gc/relink":  {"pkg/gc/decide", "pkg/gc/graph", "pkg/gc/lint"},
	"pkg/gc/pause":   {"pkg/gc/act"},
	"pkg/gc/report":  {"pkg/escape", "pkg/gc/decide", "pkg/gc/graph", "pkg/gc/lint", "pkg/gc/pause", "pkg/gc/plan", "pkg/gc/relink"},
}

// only lists what some packages alone may import from outside the module, with all below it.
var only = map[string][]string{
	"k8s.io/kubectl":                     {"pkg/cli", "pkg/translations"}, // a client, and megabytes; the server is not built on it
	"go.etcd.io/etcd/server/v3/etcdmain": {"pkg/cli"},                     // a whole program, which ends the process
}

// clients are packages for any client of an API server, one without a control plane among them, and one for none. From
// outside the module and the standard library they may import these, with all below them, and nothing else.
var clients = map[string][]string{
	"pkg/bound": {"k8s.io/client-go"},
	"pkg/elect": {"github.com/sirupsen/logrus", "k8s.io/apimachinery", "k8s.io/client-go"},

	"pkg/service":      {"go.yaml.in/yaml/v3"},
	"pkg/envtest":      {},
	"pkg/translations": {"k8s.io/kubectl/pkg/util/i18n"},
	"pkg/etcdlog":      {"github.com/sirupsen/logrus", "go.etcd.io/etcd/client/pkg/v3/logutil", "go.uber.org/zap"},
}

// pure are the packages that plan, why and the workers share: no client, clock,
// context or log, so that they can do no I/O and be tried by the million. They may
// import these and nothing else from outside the module.
var pure = map[string][]string{
	"pkg/gc/graph":  {"errors", "fmt", "iter", "maps", "math", "slices", "strings", "sync", "time", "unique", "k8s.io/apimachinery/pkg/apis/meta/v1", "k8s.io/apimachinery/pkg/runtime/schema", "k8s.io/apimachinery/pkg/types"},
	"pkg/gc/decide": {"errors", "fmt", "math", "slices", "time", "k8s.io/apimachinery/pkg/apis/meta/v1", "k8s.io/apimachinery/pkg/runtime/schema", "k8s.io/apimachinery/pkg/types", "k8s.io/apimachinery/pkg/util/resourceversion"},
	"pkg/gc/lint":   {"cmp", "slices", "time"},
	"pkg/gc/relink": {"cmp", "slices", "strings", "time", "k8s.io/apimachinery/pkg/runtime/schema", "k8s.io/apimachinery/pkg/types"},
	"pkg/gc/plan":   {"cmp", "container/heap", "context" /* a plan ends with its request */, "errors", "fmt", "math/rand/v2" /* seeded */, "slices", "strconv", "time", "k8s.io/apimachinery/pkg/apis/meta/v1", "k8s.io/apimachinery/pkg/runtime/schema", "k8s.io/apimachinery/pkg/types"},
}

// imports returns what the files below the project's pkg import, by package,
// without tests.
func imports(t *testing.T) map[string][]string {
	t.Helper()
	root := filepath.Join("..", "..")
	found := map[string][]string{}
	err := filepath.WalkDir(filepath.Join(root, "pkg"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		pkg := filepath.ToSlash(rel)
		for _, i := range f.Imports {
			name, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			found[pkg] = append(found[pkg], name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		t.Fatal("no package was found")
	}
	return found
}

func TestPackagesKnowOnlyWhatTheyMay(t *testing.T) {
	for pkg, names := range imports(t) {
		allowed, thought := may[pkg]
		if !thought {
			t.Errorf("%s is not in this test's table", pkg)
		}
		for _, name := range names {
			if own, ok := strings.CutPrefix(name, module); ok && !slices.Contains(allowed, own) {
				t.Errorf("%s must not import %s", pkg, own)
			}
		}
	}
}

func TestOutsidePackagesStayWhereTheyBelong(t *testing.T) {
	for pkg, names := range imports(t) {
		for _, name := range names {
			for outside, homes := range only {
				if (name == outside || strings.HasPrefix(name, outside+"/")) && !slices.Contains(homes, pkg) {
					t.Errorf("%s must not import %s: that is for %s", pkg, name, strings.Join(homes, " and "))
				}
			}
		}
	}
}

func TestClientsNeedNoServer(t *testing.T) {
	found := imports(t)
	for pkg, allowed := range clients {
		if len(found[pkg]) == 0 {
			t.Errorf("there is no package %s", pkg)
		}
		for _, name := range found[pkg] {
			first, _, _ := strings.Cut(name, "/")
			if !strings.Contains(first, ".") || strings.HasPrefix(name, module) {
				continue // the standard library, or TestPackagesKnowOnlyWhatTheyMay
			}
			if !slices.ContainsFunc(allowed, func(a string) bool { return name == a || strings.HasPrefix(name, a+"/") }) {
				t.Errorf("%s must not need a server, and imports %s", pkg, name)
			}
		}
	}
}

// The time is part of what a decision is made from: a pure package is given it.
func TestPurePackagesReadNoClock(t *testing.T) {
	reads := []string{"Now", "Since", "Until", "After", "AfterFunc", "Sleep", "Tick", "NewTimer", "NewTicker"}
	for pkg := range pure {
		files, err := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(pkg), "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no files in %s: %v", pkg, err)
		}
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok {
					if x, ok := s.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(reads, s.Sel.Name) {
						t.Errorf("%s reads the clock: time.%s", path, s.Sel.Name)
					}
				}
				return true
			})
		}
	}
}

func TestPurePackagesCanDoNoIO(t *testing.T) {
	found := imports(t)
	for pkg, allowed := range pure {
		for _, name := range found[pkg] {
			if !strings.HasPrefix(name, module) && !slices.Contains(allowed, name) {
				t.Errorf("%s must stay pure and imports %s", pkg, name)
			}
		}
	}
}
