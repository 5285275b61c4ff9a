package envtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/onsi/ginkgo/v2/types"
)

// module is a copy of a module's files: some tests write beside themselves.
type module struct {
	path   string
	source string   // the copy
	in     string   // the folder in which go tests it; empty is this one
	flags  []string // go's, besides
}

// name is the module's in listFile.
func (m module) name() string { return path.Base(m.path) }

// suites returns the folders whose tests start a control plane.
func (m module) suites(t *testing.T) (pkgs []string) {
	t.Helper()
	starts := regexp.MustCompile(`\b(Environment|ControlPlane|Etcd)\{`)
	err := filepath.WalkDir(m.source, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil || !starts.Match(raw) {
			return err
		}
		tests, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*_test.go"))
		if err != nil || len(tests) == 0 {
			return err
		}
		pkg, err := filepath.Rel(m.source, filepath.Dir(path))
		if err == nil && !slices.Contains(pkgs, pkg) {
			pkgs = append(pkgs, pkg)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(pkgs) == 0 {
		t.Fatalf("no tests of %s start a control plane", m.path)
	}
	return pkgs
}

// run runs the suites that are chosen, and says how many tests ran.
func (m module) run(t *testing.T, chosen func(pkg string) bool) {
	t.Helper()
	exceptions := readExceptions(t)
	pkgs := m.suites(t)
	for _, e := range exceptions {
		if of, pkg, _ := strings.Cut(e.pkg, "/"); of == m.name() && !slices.Contains(pkgs, path.Clean(pkg)) {
			t.Errorf("%s: no tests of %s start a control plane", listFile, e.pkg)
		}
	}
	var all tally
	for _, pkg := range pkgs {
		if !chosen(pkg) {
			continue
		}
		s := suite{module: m, pkg: pkg}
		for _, e := range exceptions {
			if e.pkg == s.name() {
				s.exceptions = append(s.exceptions, e)
			}
		}
		t.Run(pkg, func(t *testing.T) { all.add(s.run(t)) })
	}
	t.Attr("power", all.String())
}

// tally counts tests.
type tally struct{ passed, never, pending int }

func (t *tally) add(o tally) {
	t.passed, t.never, t.pending = t.passed+o.passed, t.never+o.never, t.pending+o.pending
}

func (t tally) String() string {
	return fmt.Sprintf("passed=%d never=%d pending=%d", t.passed, t.never, t.pending)
}

// suite is the tests of a package.
type suite struct {
	module     module
	pkg        string
	exceptions []exception
}

// name is the package's in listFile.
func (s suite) name() string { return path.Join(s.module.name(), filepath.ToSlash(s.pkg)) }

// result is what has become of a test.
type result struct {
	name   string
	state  string
	detail string // why it failed, or where
}

const (
	passed  = "passed"
	pending = "pending"
)

func (s suite) run(t *testing.T) (sum tally) {
	assets, err := use(filepath.Join(t.TempDir(), "assets"), "-p", "path") // of its own, to find the suite's processes
	if err != nil {
		t.Fatal(err)
	}
	env := []string{"KUBEBUILDER_ASSETS=" + assets}
	var flags, never, goTests, left []string
	for _, e := range s.exceptions {
		switch {
		case e.kind == "with":
			env = append(env, e.value)
		case e.kind == "leaves":
			left = append(left, e.value)
		case strings.HasPrefix(e.value, "Test"): // one that is not Ginkgo's
			s.mustHave(t, e.value)
			goTests = append(goTests, "^"+strings.ReplaceAll(regexp.QuoteMeta(e.value), "/", "$/^")+"$")
			sum.never++
		default:
			never = append(never, e.value)
			flags = append(flags, "-ginkgo.skip=^"+regexp.QuoteMeta(e.value)+"$")
		}
	}
	if len(goTests) > 0 {
		flags = append(flags, "-test.skip="+strings.Join(goTests, "|"))
	}
	defer endLeft(t, assets, left)
	missing := slices.Clone(never)
	for _, r := range s.test(t, env, flags) {
		switch {
		case slices.Contains(never, r.name):
			missing = slices.DeleteFunc(missing, func(n string) bool { return n == r.name })
			sum.never++
		case r.state == passed:
			sum.passed++
		case r.state == pending:
			sum.pending++
		default: // one that is skipped has to be listed too
			t.Errorf("%s: %s\n%s", r.state, r.name, r.detail)
		}
	}
	if len(missing) > 0 {
		t.Errorf("%s: %s has no tests %q", listFile, s.name(), missing)
	}
	if sum.passed == 0 {
		t.Errorf("no test of %s has passed", s.name())
	}
	return sum
}

// mustHave fails if the package has no test function of the name; what is behind a slash is a test of that test.
func (s suite) mustHave(t *testing.T, name string) {
	t.Helper()
	function, _, _ := strings.Cut(name, "/")
	if !s.testsContain(t, "func "+function+"(") {
		t.Errorf("%s: %s has no test %s", listFile, s.name(), function)
	}
}

// testsContain reports whether a test file of the package contains a text.
func (s suite) testsContain(t *testing.T, text string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(s.module.source, s.pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		raw, err := os.ReadFile(file)
		return err == nil && bytes.Contains(raw, []byte(text))
	})
}

// test runs the tests of the package.
func (s suite) test(t *testing.T, env, flags []string) []result {
	t.Helper()
	args := append([]string{"test", "-json", "-trimpath", "-buildvcs=false", "-count=1", "-vet=off", "-timeout=20m"}, s.module.flags...)
	args = append(args, path.Join(s.module.path, filepath.ToSlash(s.pkg)), "-args")
	report := ""
	if s.testsContain(t, `"github.com/onsi/ginkgo/v2"`) {
		report = filepath.Join(t.TempDir(), "report.json")
		args = append(args, "-ginkgo.no-color", "-ginkgo.json-report="+report)
	}
	var out, problems bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "go", append(args, flags...)...)
	cmd.Dir = s.module.in
	cmd.Env = append(os.Environ(), "KUBEBUILDER_CONTROLPLANE_START_TIMEOUT="+within.String(), "KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT="+within.String())
	cmd.Env = append(cmd.Env, env...)
	cmd.Stdout, cmd.Stderr = &out, &problems
	runErr := cmd.Run()
	results, text := goResults(t, &out)
	text += problems.String()
	if report != "" {
		raw, err := os.ReadFile(report)
		var reports []types.Report
		if err == nil {
			err = json.Unmarshal(raw, &reports)
		}
		if err != nil {
			t.Fatalf("no report: %v (%v); the last of the output:\n%s", err, runErr, tail(text, 60))
		}
		failed := func(r result) bool { return r.state != passed && r.state != pending }
		switch specs := specResults(reports); {
		case slices.ContainsFunc(specs, failed):
			results = specs
		case len(specs) > 0:
			// One of the other tests runs all of Ginkgo's.
			results = append(slices.DeleteFunc(results, func(r result) bool { return r.state == passed }), specs...)
		}
	}
	failed := func(r result) bool { return r.state == types.SpecStateFailed.String() }
	if runErr != nil && !slices.ContainsFunc(results, failed) {
		t.Errorf("%v; the last of the output:\n%s", runErr, tail(text, 60))
	}
	return results
}

// specResults are the tests in a report of Ginkgo's, and what failed in preparing them.
func specResults(reports []types.Report) (all []result) {
	for _, r := range reports {
		for _, s := range r.SpecReports {
			if s.LeafNodeType.Is(types.NodeTypeIt) || s.State.Is(types.SpecStateFailureStates) {
				all = append(all, result{s.FullText(), s.State.String(), fmt.Sprintf("%s\n%s", s.Failure.Location, s.Failure.Message)})
			}
		}
	}
	return all
}

// goResults reads what go test -json prints. It returns the tests without tests of their own, those that failed without any
// of these failing, and all output as text.
func goResults(t *testing.T, out *bytes.Buffer) (all []result, text string) {
	t.Helper()
	states := map[string]string{"pass": passed, "skip": types.SpecStateSkipped.String(), "fail": types.SpecStateFailed.String()}
	printed := map[string]*strings.Builder{}
	var every strings.Builder
	for dec := json.NewDecoder(out); dec.More(); {
		var e struct{ Action, Test, Output string }
		if err := dec.Decode(&e); err != nil {
			t.Fatalf("what go test prints: %v", err)
		}
		if e.Action == "run" {
			printed[e.Test] = &strings.Builder{}
		}
		every.WriteString(e.Output)
		if b := printed[e.Test]; b != nil {
			b.WriteString(e.Output)
		}
		state, ended := states[e.Action]
		if !ended || e.Test == "" {
			continue
		}
		// A test ends after its own tests.
		own := func(r result) bool {
			return strings.HasPrefix(r.name, e.Test+"/") && (state == passed || r.state == state)
		}
		if !slices.ContainsFunc(all, own) {
			all = append(all, result{e.Test, state, tail(printed[e.Test].String(), 60)})
		}
	}
	return all, every.String()
}

// tail returns the last lines of a text.
func tail(text string, lines int) string {
	all := strings.SplitAfter(text, "\n")
	return strings.Join(all[max(0, len(all)-lines):], "")
}
