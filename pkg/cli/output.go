package cli

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/reap-dev/reap/pkg/config"
)

// formats are what --output takes.
var formats = []string{"text", "json"}

func outputFlag() *cli.StringFlag {
	return &cli.StringFlag{
		Name: "output", Aliases: []string{"o"}, Value: "text", DefaultText: "text", Category: "Output",
		Usage: "`FORMAT` text, for people, or json, whose fields are stable",
	}
}

func namespaceFlag() *cli.StringFlag {
	return &cli.StringFlag{
		Name: "namespace", Aliases: []string{"n"}, Category: "Object",
		Usage: "`NAME` namespace of the object (default: that of the kubeconfig's context, or default)",
	}
}

// checkOutput returns the value of --output, or what is wrong with it.
func checkOutput(c *cli.Context) (string, error) {
	format := c.String("output")
	for _, f := range formats {
		if f == format {
			return format, nil
		}
	}
	text := fmt.Sprintf("--output has to be text or json, not %q", format)
	if n := config.Nearest(format, formats); n != "" {
		text += fmt.Sprintf(" (did you mean %s?)", n)
	}
	return "", fmt.Errorf("%s", text)
}

// printable is a report that can be written for people.
type printable interface{ Print(io.Writer) error }

// print writes a report in a format that checkOutput has returned.
func print(out io.Writer, format string, r printable) error {
	if format == "text" {
		return r.Print(out)
	}
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(r)
}
