package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/escape"
	"github.com/reap-dev/reap/pkg/gc/report"
)

// formats are what --output takes at least.
var formats = []string{"text", "json"}

// outputFlag is the flag of a command that prints a report, as text, JSON, or in further formats.
func outputFlag(further ...string) *cli.StringFlag {
	usage := "`FORMAT` text, for people, or json, whose fields are stable"
	if len(further) > 0 {
		usage = "`FORMAT` text, for people, json, whose fields are stable, or " + strings.Join(further, ", ")
	}
	return &cli.StringFlag{
		Name: "output", Aliases: []string{"o"}, Value: "text", DefaultText: "text", Category: "Output", Usage: usage,
	}
}

// limitFlag is the flag of a command that prints a long list.
func limitFlag(limit int, what string) *cli.IntFlag {
	return &cli.IntFlag{
		Name: "limit", Value: limit, Category: "Output",
		Usage: fmt.Sprintf("`N` show this many %s at the most, and count the others; 0 for all", what),
	}
}

// checkLimit returns the value of --limit, or what is wrong with it.
func checkLimit(c *cli.Context) (int, error) {
	if n := c.Int("limit"); n >= 0 {
		return n, nil
	}
	return 0, fmt.Errorf("--limit has to be a number, or 0 for all, not %d", c.Int("limit"))
}

func namespaceFlag() *cli.StringFlag {
	return &cli.StringFlag{
		Name: "namespace", Aliases: []string{"n"}, Category: "Object",
		Usage: "`NAME` namespace of the object (default: that of the kubeconfig's context, or default)",
	}
}

// checkOutput returns the value of --output, or what is wrong with it.
func checkOutput(c *cli.Context, further ...string) (string, error) {
	format := c.String("output")
	known := slices.Concat(formats, further)
	if slices.Contains(known, format) {
		return format, nil
	}
	last := len(known) - 1
	text := fmt.Sprintf("--output has to be %s or %s, not %q", strings.Join(known[:last], ", "), known[last], format)
	if n := config.Nearest(format, known); n != "" {
		text += fmt.Sprintf(" (did you mean %s?)", n)
	}
	return "", fmt.Errorf("%s", text)
}

// printable is a report that can be written for people.
type printable interface{ Print(io.Writer) error }

// print writes a report in a format that checkOutput has returned.
func print(out io.Writer, format string, r printable) error {
	if format == "text" {
		if coloured, ok := r.(interface {
			PrintIn(io.Writer, report.Palette) error
		}); ok {
			colours := palette(out)
			return folded(out, func(out io.Writer) error { return coloured.PrintIn(out, colours) })
		}
		return folded(out, r.Print)
	}
	return escape.WriteJSON(out, r, "  ")
}
