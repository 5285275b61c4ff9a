package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// table is tests/suites.yaml.
type table struct {
	// Proofs are packages, or tests of one ("DIR TestName", by the beginning of their names), of which a single failure fails a run.
	Proofs []string `json:"proofs"`
	Suites []row    `json:"suites"`
}

// row is a run of go test.
type row struct {
	Name string `json:"name"`
	// Tier is gate or release; both if it is empty.
	Tier string `json:"tier"`
	// Lane names the rows that run one after another; lanes run at once. After is a lane that has to end before.
	Lane  string `json:"lane"`
	After string `json:"after"`
	// Module is the directory of a module of its own, all of which is tested, in place of Packages.
	Module string `json:"module"`
	// Packages are directories. DIR/... stands for every one below with tests that no row of the tier names, and ... for every one at all.
	Packages []string `json:"packages"`
	Race     bool     `json:"race"`
	// Run and Skip choose tests, as go test's flags do.
	Run  string `json:"run"`
	Skip string `json:"skip"`
	// Smoke chooses the tests of a run in which nothing below the paths in Changed is other than in the last tag, or twenty commits ago.
	Smoke   string   `json:"smoke"`
	Changed []string `json:"changed"`
	// Short asks for the short size, Size for another one than the run's.
	Short bool   `json:"short"`
	Size  string `json:"size"`
	// Part and Engine are the values of REAP_TEST_PART and REAP_TEST_ENGINE.
	Part   string `json:"part"`
	Engine string `json:"engine"`
	// Parallel is how many packages are tested at once; 0 is one a core, at most four.
	Parallel int `json:"parallel"`
	// Binary is true if the tests run bin/reap.
	Binary bool `json:"binary"`
	// Cached is true if the results of an earlier run hold as long as nothing that they read has changed.
	Cached bool `json:"cached"`
}

const (
	gate    = "gate"
	release = "release"
)

func readTable(file string) (table, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return table{}, err
	}
	var t table
	if err := yaml.UnmarshalStrict(raw, &t); err != nil {
		return table{}, fmt.Errorf("%s: %w", file, err)
	}
	return t, nil
}

// tested are the directories of packages with tests, by tier: some have tests for a release alone.
type tested map[string][]string

// check returns an error unless each row names something to test, no two have one name, and every package and module with tests is in one.
func (t table) check(packages tested, modules []string) error {
	var errs []error
	names, found := map[string]bool{}, map[string]bool{}
	for _, r := range t.Suites {
		switch {
		case r.Name == "" || r.Lane == "":
			errs = append(errs, fmt.Errorf("the row %+v has no name or no lane", r))
		case names[r.Name]:
			errs = append(errs, fmt.Errorf("two rows are named %s", r.Name))
		case r.Tier != "" && r.Tier != gate && r.Tier != release:
			errs = append(errs, fmt.Errorf("%s: the tier is %q, and can be %s or %s", r.Name, r.Tier, gate, release))
		case (r.Smoke == "") != (len(r.Changed) == 0) || r.Smoke != "" && r.Run != "":
			errs = append(errs, fmt.Errorf("%s: smoke needs changed, and no run", r.Name))
		case (r.Module == "") == (len(r.Packages) == 0):
			errs = append(errs, fmt.Errorf("%s: it needs packages, or a module", r.Name))
		}
		names[r.Name] = true
		for _, p := range r.Packages {
			tier := r.Tier
			if tier == "" {
				tier = gate
			}
			if dir, ok := strings.CutSuffix(p, "..."); !ok && !slices.Contains(packages[tier], p) || ok && !slices.ContainsFunc(packages[tier], below(dir)) {
				errs = append(errs, fmt.Errorf("%s: there are no tests in %s", r.Name, p))
			}
		}
		if r.Module != "" && !slices.Contains(modules, r.Module) {
			errs = append(errs, fmt.Errorf("%s: there is no module in %s", r.Name, r.Module))
		}
		found[r.Module] = true
	}
	for _, tier := range []string{gate, release} {
		in := map[string]bool{}
		for _, r := range t.rows(tier, packages) {
			if len(r.Packages) == 0 && r.Module == "" {
				errs = append(errs, fmt.Errorf("%s: other rows name every package that it has", r.Name))
			}
			for _, p := range r.Packages {
				in[p] = true
			}
		}
		for _, dir := range packages[tier] {
			if !in[dir] {
				errs = append(errs, fmt.Errorf("no row of the tier %s tests %s", tier, dir))
			}
		}
	}
	for _, dir := range modules {
		if !found[dir] {
			errs = append(errs, fmt.Errorf("no row tests %s", dir))
		}
	}
	for _, p := range t.Proofs {
		if dir, _, _ := strings.Cut(p, " "); !slices.Contains(packages[gate], dir) {
			errs = append(errs, fmt.Errorf("proofs: there are no tests in %s", dir))
		}
	}
	return errors.Join(errs...)
}

// below returns whether a package is in a directory, with its slash, or below it. The empty one has all.
func below(dir string) func(string) bool {
	return func(p string) bool { return dir == "" || strings.HasPrefix(p+"/", dir) }
}

// rows returns the rows of a tier, with packages in place of patterns.
func (t table) rows(tier string, packages tested) []row {
	var all []row
	named := map[string]bool{}
	for _, r := range t.Suites {
		if r.Tier == "" || r.Tier == tier {
			all = append(all, r)
			for _, p := range r.Packages {
				named[p] = true
			}
		}
	}
	for i, r := range all {
		var resolved []string
		for _, p := range r.Packages {
			dir, ok := strings.CutSuffix(p, "...")
			if !ok {
				resolved = append(resolved, p)
				continue
			}
			for _, p := range packages[tier] {
				if below(dir)(p) && !named[p] {
					resolved = append(resolved, p)
				}
			}
		}
		all[i].Packages = resolved
	}
	return all
}

// left says what only a release tests, or only a release tests with the race detector.
func (t table) left(packages tested) string {
	var never, raceless []string
	gated, raced, releaseRaced := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, r := range t.rows(gate, packages) {
		for _, p := range append(r.Packages, r.Module) {
			gated[p] = true
			raced[p] = raced[p] || r.Race
		}
	}
	for _, r := range t.rows(release, packages) {
		for _, p := range append(r.Packages, r.Module) {
			releaseRaced[p] = releaseRaced[p] || r.Race
			if !gated[p] && !slices.Contains(never, p) {
				never = append(never, p)
			}
		}
	}
	for _, p := range packages[gate] {
		if gated[p] && releaseRaced[p] && !raced[p] {
			raceless = append(raceless, p)
		}
	}
	text := strings.Join(never, " ")
	if len(raceless) > 0 {
		text += "; the race detector for " + strings.Join(raceless, " ")
	}
	return strings.TrimPrefix(text, "; ")
}

// isProof returns whether a single failure of a test fails a run. Without a test it asks for the package.
func (t table) isProof(pkg, test string) bool {
	return slices.ContainsFunc(t.Proofs, func(p string) bool {
		dir, prefix, _ := strings.Cut(p, " ")
		return path.Clean(dir) == pkg && strings.HasPrefix(test, prefix)
	})
}
