// Command svg draws the output of a terminal as an SVG picture.
//
//	svg -title TEXT < OUTPUT > PICTURE
//
// It knows the colours that reap writes: bold, faint, red and green.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"html"
	"io"
	"os"
	"regexp"
	"strings"
	"unicode/utf8"
)

// The picture's measures, in pixels.
const (
	charWidth, lineHeight = 8.4, 19
	margin, bar           = 16, 34
)

func main() {
	title := flag.String("title", "", "shown above the terminal")
	flag.Parse()
	if err := draw(os.Stdin, os.Stdout, *title); err != nil {
		fmt.Fprintln(os.Stderr, "svg:", err)
		os.Exit(1)
	}
}

// sequence matches control sequences: those that change the colour, and others, which are left out.
var sequence = regexp.MustCompile("\x1b\\[([0-9;?]*)([A-Za-z])")

// styles maps the codes that set a style to its class.
var styles = map[string]string{"1": "bold", "2": "faint", "31": "red", "32": "green"}

func draw(in io.Reader, out io.Writer, title string) error {
	var lines []string
	longest := utf8.RuneCountInString(title)
	for s := bufio.NewScanner(in); s.Scan(); {
		line := strings.TrimRight(s.Text(), "\r ")
		lines = append(lines, line)
		longest = max(longest, utf8.RuneCountInString(sequence.ReplaceAllString(line, "")))
	}
	width, height := int(float64(longest)*charWidth)+2*margin, len(lines)*lineHeight+bar+margin
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" role="img">
<title>%[3]s</title>
<style>
text { font: 14px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #d8dee9; white-space: pre }
.bold { font-weight: bold; fill: #ffffff } .faint { fill: #8a93a3 } .red { fill: #ff7b72 } .green { fill: #7ee787 }
</style>
<rect width="100%%" height="100%%" rx="8" fill="#1b1f27"/>
<text x="%[4]d" y="22" class="faint">%[3]s</text>
`, width, height, html.EscapeString(title), margin)
	for i, line := range lines {
		fmt.Fprintf(w, "<text x=\"%d\" y=\"%d\" xml:space=\"preserve\">%s</text>\n", margin, bar+(i+1)*lineHeight-5, spans(line))
	}
	fmt.Fprintln(w, "</svg>")
	return w.Flush()
}

// spans returns a line with its colours as classes.
func spans(line string) string {
	var b strings.Builder
	class := ""
	write := func(text string) {
		switch {
		case text == "":
		case class == "":
			b.WriteString(html.EscapeString(text))
		default:
			fmt.Fprintf(&b, `<tspan class="%s">%s</tspan>`, class, html.EscapeString(text))
		}
	}
	at := 0
	for _, m := range sequence.FindAllStringSubmatchIndex(line, -1) {
		write(line[at:m[0]])
		at = m[1]
		if line[m[4]:m[5]] == "m" {
			class = styles[line[m[2]:m[3]]]
		}
	}
	write(line[at:])
	return b.String()
}
