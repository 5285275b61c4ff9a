package main

import (
	"slices"
	"strings"
	"testing"
)

var (
	names    = []string{".", "pkg/a", "pkg/a/b", "pkg/c", "tests/d"}
	packages = tested{gate: names, release: append([]string{"tests/e"}, names...)}
	modules  = []string{"other"}
	good     = table{
		Proofs: []string{"tests/d", "pkg/c TestPower"},
		Suites: []row{
			{Name: "plain", Tier: gate, Lane: "x", Packages: []string{"pkg/c"}},
			{Name: "race", Tier: gate, Lane: "y", Packages: []string{"..."}, Race: true},
			{Name: "long", Tier: release, Lane: "x", Packages: []string{"pkg/...", "pkg/c"}, Race: true},
			{Name: "rest", Tier: release, Lane: "x", Packages: []string{"..."}},
			{Name: "other", Tier: release, Lane: "z", Module: "other"},
		},
	}
)

func TestRowsOfATier(t *testing.T) {
	if err := good.check(packages, modules); err != nil {
		t.Fatal(err)
	}
	rows := good.rows(gate, packages)
	if len(rows) != 2 || !slices.Equal(rows[0].Packages, []string{"pkg/c"}) || !slices.Equal(rows[1].Packages, []string{".", "pkg/a", "pkg/a/b", "tests/d"}) {
		t.Errorf("the gate tests %+v", rows)
	}
	if left := good.left(packages); left != "tests/e other; the race detector for pkg/c" {
		t.Errorf("left is %q", left)
	}
	for what, want := range map[string]bool{"tests/d TestX": true, "pkg/c TestPowerCuts": true, "pkg/c TestOther": false, "pkg/a TestPower": false} {
		if pkg, test, _ := strings.Cut(what, " "); good.isProof(pkg, test) != want {
			t.Errorf("%s is a proof: %v", what, !want)
		}
	}
}

// TestTableIsChecked: each fault of it is an error that names the row.
func TestTableIsChecked(t *testing.T) {
	for want, change := range map[string]func(*table){
		"two rows are named plain":              func(b *table) { b.Suites[1].Name = "plain" },
		"race: there are no tests in docs":      func(b *table) { b.Suites[1].Packages = []string{"...", "docs"} },
		"long: there are no tests in docs/...":  func(b *table) { b.Suites[2].Packages = append(b.Suites[2].Packages, "docs/...") },
		"no row of the tier gate tests tests/d": func(b *table) { b.Suites[1].Packages = []string{".", "pkg/..."}; b.Suites[3].Packages = []string{"."} },
		"no row tests other":                    func(b *table) { b.Suites = b.Suites[:4] },
		"there is no module in others":          func(b *table) { b.Suites[4].Module = "others" },
		"plain: it needs packages":              func(b *table) { b.Suites[0].Packages = nil },
		"has no name or no lane":                func(b *table) { b.Suites[0].Lane = "" },
		"plain: the tier is":                    func(b *table) { b.Suites[0].Tier = "weekly" },
		"race: other rows name every package":   func(b *table) { b.Suites[0].Packages = names },
		"proofs: there are no tests in docs":    func(b *table) { b.Proofs = []string{"docs"} },
	} {
		b := table{Proofs: good.Proofs}
		for _, r := range good.Suites {
			r.Packages = slices.Clone(r.Packages)
			b.Suites = append(b.Suites, r)
		}
		change(&b)
		if err := b.check(packages, modules); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}

func TestArguments(t *testing.T) {
	find := func(test string) ([]string, error) {
		return map[string][]string{"TestA": {"pkg/a"}, "TestB": {"pkg/c", "pkg/a"}}[test], nil
	}
	for args, want := range map[string]options{
		"":                               {},
		"--strict --release":             {strict: true, release: true},
		"pkg/c":                          {chosen: []string{"pkg/c"}},
		"./pkg/a/... -v":                 {chosen: []string{"pkg/a", "pkg/a/b"}, flags: []string{"-v"}},
		"-count 2 ./...":                 {flags: []string{"-count", "2"}},
		"--short -race TestA TestB":      {short: true, race: true, chosen: []string{"pkg/a", "pkg/c"}, tests: []string{"TestA", "TestB"}, flags: []string{"-run", "^(TestA|TestB)$"}},
		"-run TestX -model.seed=3 pkg/c": {flags: []string{"-run", "TestX", "-model.seed=3"}, chosen: []string{"pkg/c"}},
	} {
		got, err := parse(strings.Fields(args), names, find)
		if err != nil || got.short != want.short || got.release != want.release || got.strict != want.strict || got.race != want.race ||
			!slices.Equal(got.flags, want.flags) || !slices.Equal(got.chosen, want.chosen) || !slices.Equal(got.tests, want.tests) {
			t.Errorf("%s: %+v (%v), want %+v", args, got, err, want)
		}
	}
	for args, want := range map[string]string{"-run": "needs a value", "TestNone": "there is no test TestNone", "pkg/none": "no package", "--shrot": "", "pkg": "no package"} {
		if _, err := parse(strings.Fields(args), names, find); want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

// TestChosenPackagesRunAsTheirRows: with or without the detector, but without what a row says of names and sizes.
func TestChosenPackagesRunAsTheirRows(t *testing.T) {
	rows := []row{
		{Name: "one", Packages: []string{"pkg/a"}, Race: true, Skip: "Etcd", Short: true, Part: "alone", Parallel: 1},
		{Name: "two", Packages: []string{"pkg/a", "pkg/c"}, Run: "Etcd", Binary: true},
		{Name: "three", Module: "other"},
		{Name: "four", Module: "other"},
	}
	got := options{chosen: []string{"other", "pkg/a", "pkg/c"}}.rowsOf(rows)
	if len(got) != 3 || !got[0].Race || got[0].Skip+got[0].Part != "" || got[0].Short || !slices.Equal(got[1].Packages, []string{"pkg/c"}) || got[1].Run != "" || got[1].Race ||
		!got[1].Binary || got[2].Module != "other" {
		t.Errorf("the rows are %+v", got)
	}
	if got := (options{chosen: []string{"pkg/c"}, race: true}).rowsOf(rows); len(got) != 1 || !got[0].Race {
		t.Errorf("with the detector the rows are %+v", got)
	}
}
