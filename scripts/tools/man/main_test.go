package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestEachCommandHasAPage(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "cli.md"))
	if err != nil {
		t.Fatal(err)
	}
	made := pages(string(raw), "v1.2.3", "2026-01-02")
	commands := regexp.MustCompile(`(?m)^## (reap .*)$`).FindAllStringSubmatch(string(raw), -1)
	if len(commands) < 10 || len(made) != len(commands)+1 {
		t.Errorf("%d pages of %d commands", len(made), len(commands))
	}
	for _, m := range commands {
		name := strings.ReplaceAll(m[1], " ", "-")
		page := string(made[name+".1"])
		for _, part := range []string{".TH ", `"2026-01-02" "reap v1.2.3"`, ".SH NAME\n", ".SH SYNOPSIS\n", ".SH DESCRIPTION\n", ".SH SEE ALSO\n"} {
			if !strings.Contains(page, part) {
				t.Errorf("%s has no %q:\n%s", name, part, page)
			}
		}
		if strings.Contains(page, "###") || strings.Contains(page, "|---") {
			t.Errorf("%s has Markdown in it:\n%s", name, page)
		}
	}
	for _, part := range []string{".SH COMMANDS\n", ".SH EXIT CODES\n", ".SH CONFIGURATION\n", "reap server"} {
		if !strings.Contains(string(made["reap.1"]), part) {
			t.Errorf("reap.1 has no %q:\n%s", part, made["reap.1"])
		}
	}
}
