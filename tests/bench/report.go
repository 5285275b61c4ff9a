package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"
)

// report is the outcome of a run, as it is written.
type report struct {
	Date    time.Time `json:"date"`
	Took    string    `json:"took"`
	Args    []string  `json:"args"`
	Objects int       `json:"objects"`
	Cores   int       `json:"cores"`
	// Load is the machine's load average at the beginning and at the end. The benchmark's own is in the second.
	Load    [2]string `json:"load"`
	Figures []figure  `json:"figures"`
}

// figure is one number. Met is there if and only if there is a budget.
type figure struct {
	Measure string  `json:"measure"`
	What    string  `json:"what"`
	Value   float64 `json:"value"`
	Unit    string  `json:"unit"`
	Budget  string  `json:"budget,omitempty"`
	Met     *bool   `json:"met,omitempty"`
}

// budget is what a figure should keep to.
type budget struct {
	atLeast bool
	value   float64
}

func atLeast(v float64) *budget { return &budget{true, v} }
func atMost(v float64) *budget  { return &budget{false, v} }

func (r *report) begin(args []string, objects int) {
	r.Date, r.Args, r.Objects, r.Cores = time.Now().UTC(), args, objects, runtime.NumCPU()
	r.Load[0] = load()
}

func (r *report) end() {
	r.Took = time.Since(r.Date).Round(time.Second).String()
	r.Load[1] = load()
}

// load returns the machine's load averages.
func load() string {
	raw, _ := os.ReadFile("/proc/loadavg") // without it the report says nothing
	return strings.Join(strings.Fields(string(raw))[:min(3, len(strings.Fields(string(raw))))], " ")
}

// add notes a figure; budget may be nil.
func (r *report) add(measure, what string, value float64, unit string, b *budget) {
	f := figure{Measure: measure, What: what, Value: value, Unit: unit}
	if b != nil {
		sign, met := "≤ ", value <= b.value
		if b.atLeast {
			sign, met = "≥ ", value >= b.value
		}
		f.Budget, f.Met = sign+number(b.value), &met
	}
	r.Figures = append(r.Figures, f)
	say("  %s: %s %s", what, number(value), unit)
}

// print writes the figures as a table that is Markdown too.
func (r *report) print(to io.Writer) {
	w := tabwriter.NewWriter(to, 0, 0, 1, ' ', tabwriter.TabIndent)
	line := func(cells ...string) { fmt.Fprintln(w, "| "+strings.Join(cells, "\t| ")+"\t|") }
	fmt.Fprintf(to, "%s, %d cores, N = %d, took %s, load %s before and %s after\n\n", r.Date.Format("2006-01-02 15:04 UTC"), r.Cores, r.Objects, r.Took, r.Load[0], r.Load[1])
	line("measure", "what", "figure", "unit", "budget", "met")
	line("---", "---", "---", "---", "---", "---")
	for _, f := range r.Figures {
		met := ""
		if f.Met != nil {
			met = map[bool]string{true: "yes", false: "NO"}[*f.Met]
		}
		line(f.Measure, f.What, number(f.Value), f.Unit, f.Budget, met)
	}
	_ = w.Flush() // nobody is left to be told
}

func (r *report) write(file string) error {
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(raw, '\n'), 0o644)
}

// number prints the significant digits.
func number(v float64) string {
	switch {
	case v != 0 && v < 0.01:
		return fmt.Sprintf("%.4f", v)
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 1000:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}
