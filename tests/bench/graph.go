package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
)

// graphs runs the Go benchmarks of pkg/gc/graph three times each, and keeps the fastest run: other work of the machine
// can only make a run slower.
func (b *bench) graphs(ctx context.Context) error {
	if b.graph == "" {
		return errors.New("--graph-test does not say where the compiled tests are")
	}
	cmd := exec.CommandContext(ctx, b.graph, "-test.run=^$", "-test.bench=.", "-test.benchmem", "-test.benchtime=500ms", "-test.count=3")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	var order []string
	best := map[string]map[string]float64{} // by name and unit
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		// The name, how often, then pairs of a number and its unit.
		words := strings.Fields(lines.Text())
		if len(words) < 4 || !strings.HasPrefix(words[0], "Benchmark") {
			continue
		}
		name := strings.TrimPrefix(words[0], "Benchmark")
		name = strings.TrimSuffix(name, fmt.Sprintf("-%d", runtime.GOMAXPROCS(0)))
		run := map[string]float64{}
		for i := 2; i+1 < len(words); i += 2 {
			if run[words[i+1]], err = strconv.ParseFloat(words[i], 64); err != nil {
				return fmt.Errorf("reading %q: %w", lines.Text(), err)
			}
		}
		before := best[name]
		if before == nil {
			order = append(order, name)
		}
		if before == nil || run["ns/op"] < before["ns/op"] {
			best[name] = run
		}
	}
	for _, name := range order {
		r := best[name]
		what := fmt.Sprintf("%s (%.0f B, %.0f allocations)", name, r["B/op"], r["allocs/op"])
		if events, ok := r["events/s"]; ok {
			b.report.add("graph", what, events, "events/s", atLeast(1e6))
		} else {
			b.report.add("graph", what, r["ns/op"]/1e3, "µs/op", nil)
		}
	}
	return lines.Err()
}
