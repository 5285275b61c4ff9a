package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/reap-dev/reap/scripts/tools/summary"
)

const (
	// forgiven is how many flaky tests a run may have.
	forgiven = 3
	// repeated is how many failed tests are tried again: with more of them it is the change that is wrong, or the machine.
	repeated = 6
)

// repeat tries each failed test twice more, alone. One that passes both times is flaky. Data races, failures outside a test, and those of
// proofs are never tried again: one is enough.
func (r *runner) repeat(ctx context.Context, t table, rows []row, failed []summary.Failure) (flaky map[summary.Failure]bool, err error) {
	flaky = map[summary.Failure]bool{}
	if len(failed) == 0 || len(failed) > repeated || slices.Contains(r.flags, "-failfast") {
		return flaky, nil
	}
	for i, f := range failed {
		row, ok := rowNamed(rows, f.Row)
		if f.Test == "" || f.Race || !ok || t.isProof(f.Package, f.Test) || ctx.Err() != nil {
			continue
		}
		row.Run, row.Skip, row.Part, row.Cached = "", "", "", false
		pkg := "./" + f.Package
		if row.Module != "" {
			pkg = "./" + strings.TrimPrefix(strings.TrimPrefix(f.Package, row.Module), "/")
		} else {
			row.Packages = []string{f.Package}
		}
		r.screen.say(fmt.Sprintf("trying %s of %s twice more, alone", f.Test, pkg))
		file := filepath.Join(r.failures, fmt.Sprintf("again-%d.json", i+1))
		if err := r.test(ctx, row, file, slices.Concat(r.flags, []string{"-run", "^" + f.Test + "$", "-count=2"})...); err != nil {
			return flaky, err
		}
		passed, err := summary.Passed(file, f.Test)
		if err != nil {
			return flaky, err
		}
		flaky[f] = passed == 2
	}
	return flaky, nil
}

func rowNamed(rows []row, name string) (row, bool) {
	i := slices.IndexFunc(rows, func(r row) bool { return r.Name == name })
	if i < 0 {
		return row{}, false
	}
	return rows[i], true
}
