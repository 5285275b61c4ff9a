package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// graphs runs the Go benchmarks of pkg/gc/graph.
func (b *bench) graphs(ctx context.Context) error {
	if b.graph == "" {
		return errors.New("--graph-test does not say where the compiled tests are")
	}
	cmd := exec.CommandContext(ctx, b.graph, "-test.run=^$", "-test.bench=.", "-test.benchmem")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		// The name, how often, then pairs of a number and its unit.
		words := strings.Fields(lines.Text())
		if len(words) < 4 || !strings.HasPrefix(words[0], "Benchmark") {
			continue
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(words[0], "Benchmark"), "-")
		for i := 2; i+1 < len(words); i += 2 {
			v, err := strconv.ParseFloat(words[i], 64)
			if err != nil {
				return fmt.Errorf("reading %q: %w", lines.Text(), err)
			}
			var limit *budget
			if words[i+1] == "events/s" {
				limit = atLeast(1e6)
			}
			b.report.add("graph", name, v, words[i+1], limit)
		}
	}
	return lines.Err()
}
