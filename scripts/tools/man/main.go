// Command man makes the man pages of a release from docs/cli.md: reap(1), and one page for each command.
//
//	man -version VERSION -date DATE -o DIR docs/cli.md
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cpuguy83/go-md2man/v2/md2man"
)

func main() {
	version := flag.String("version", "dev", "the release's version")
	date := flag.String("date", "", "the release's date; its first ten characters are shown")
	dir := flag.String("o", ".", "the directory to write the pages to")
	flag.Parse()
	raw, err := os.ReadFile(flag.Arg(0))
	if err == nil {
		err = write(*dir, pages(string(raw), *version, (*date)[:min(len(*date), 10)]))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "man:", err)
		os.Exit(1)
	}
}

func write(dir string, pages map[string][]byte) error {
	for name, page := range pages {
		if err := os.WriteFile(filepath.Join(dir, name), page, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// pages returns the man pages by the names of their files.
func pages(reference, version, date string) map[string][]byte {
	first, rest, _ := strings.Cut(reference, "\n## ")
	overview := "# NAME\n\nreap - a Kubernetes API server with an ownership garbage collector in the same process\n\n" +
		"# SYNOPSIS\n\n**reap** *COMMAND* [*flags*]\n\n# COMMANDS\n\n" + definitions(first[strings.Index(first, "\n| "):])
	made := map[string][]byte{}
	for _, part := range strings.Split(rest, "\n## ") {
		title, body, _ := strings.Cut(part, "\n")
		if !strings.HasPrefix(title, "reap ") {
			overview += "\n# " + strings.ToUpper(title) + "\n" + definitions(body)
			continue
		}
		name := strings.ReplaceAll(title, " ", "-")
		made[name+".1"] = page(name, version, date, command(name, title, body))
	}
	made["reap.1"] = page("reap", version, date, overview)
	return made
}

// command arranges a command's part of the reference as a man page.
func command(name, title, body string) string {
	usage, body, _ := strings.Cut(strings.TrimSpace(body), "\n\n")
	synopsis, body, _ := strings.Cut(strings.TrimPrefix(body, "```\n"), "\n```\n")
	text := "# NAME\n\n" + name + " - " + strings.ToLower(usage[:1]) + strings.TrimSuffix(usage[1:], ".") +
		"\n\n# SYNOPSIS\n\n**" + synopsis + "**\n\n# DESCRIPTION\n" + definitions(body)
	return strings.ReplaceAll(text, "\n### "+title+": ", "\n# ") + "\n# SEE ALSO\n\n**reap**(1)\n"
}

func page(name, version, date, text string) []byte {
	return md2man.Render(fmt.Appendf(nil, "%% %s 1 \"%s\" \"reap %s\" \"reap\"\n\n%s", strings.ToUpper(name), date, version, text))
}

// definitions turns each row of a table into a definition: terminals are too narrow for tables.
func definitions(text string) string {
	var out []string
	var columns []string
	for line := range strings.SplitSeq(text, "\n") {
		row, isRow := strings.CutPrefix(line, "| ")
		switch {
		case !isRow && !strings.HasPrefix(line, "|--"):
			columns = nil
			out = append(out, line)
		case !isRow: // the line below the columns' names
		case columns == nil:
			columns = cells(row)
		default:
			out = append(out, definition(columns, cells(row))...)
		}
	}
	return strings.Join(out, "\n")
}

// definition returns a row as a definition: the first cell is the term, the last its meaning,
// followed by the cells between, each with its column's name.
func definition(columns, row []string) []string {
	last := len(row) - 1
	meaning := row[last]
	for i := 1; i < last; i++ {
		if row[i] != "" {
			meaning += "; " + columns[i] + " " + row[i]
		}
	}
	term, _, _ := strings.Cut(strings.TrimPrefix(row[0], "["), "](")
	return []string{"**" + strings.ReplaceAll(strings.Trim(term, "`"), "`", "") + "**", ": " + meaning, ""}
}

func cells(row string) (cells []string) {
	row = strings.TrimSuffix(strings.TrimSpace(row), "|")
	for cell := range strings.SplitSeq(strings.ReplaceAll(row, `\|`, "\x00"), "|") {
		cells = append(cells, strings.ReplaceAll(strings.TrimSpace(cell), "\x00", "|"))
	}
	return cells
}
