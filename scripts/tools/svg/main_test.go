package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestDraw(t *testing.T) {
	var out strings.Builder
	if err := draw(strings.NewReader("\x1b[1m$ reap why\x1b[0m <x>\x1b[?25l\r\n\x1b[31mheld\x1b[22m by\n"), &out, "a & b"); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		`<tspan class="bold">$ reap why</tspan> &lt;x&gt;</text>`, `<tspan class="red">held</tspan> by</text>`, "<title>a &amp; b</title>",
	} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("there is no %s in\n%s", part, &out)
		}
	}
	for d := xml.NewDecoder(strings.NewReader(out.String())); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
