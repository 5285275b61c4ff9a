package report

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// TestFieldsAreDocumented: each JSON field of a report is documented in its section of docs/json.md
// or in docs/reports.md.
func TestFieldsAreDocumented(t *testing.T) {
	read := func(name string) string {
		raw, err := os.ReadFile("../../../docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	pages := read("json.md")
	shared, sections, _ := strings.Cut(pages, "\n## ")
	for command, r := range map[string]any{
		"status": Status{}, "why": Why{}, "plan delete": Plan{}, "release": Release{}, "relink": Relink{}, "delete": Deleted{}, "tree": Tree{}, "lint": Lint{},
	} {
		page := read("reports.md")
		for section := range strings.SplitSeq(sections, "\n## ") {
			if rest, is := strings.CutPrefix(section, "reap "+command+"\n"); is {
				page = shared + rest
			}
		}
		seen := map[reflect.Type]bool{}
		var fields func(reflect.Type)
		fields = func(of reflect.Type) {
			for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
				of = of.Elem()
			}
			if of.Kind() != reflect.Struct || seen[of] || of.PkgPath() == "time" {
				return
			}
			seen[of] = true
			for f := range of.Fields() {
				name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				if name != "" && name != "-" && !regexp.MustCompile("[`.]"+name+"`").MatchString(page) {
					t.Errorf("reap %s: %s.%s is not documented", command, of, name)
				}
				fields(f.Type)
			}
		}
		fields(reflect.TypeOf(r))
		if len(seen) < 2 {
			t.Errorf("reap %s: only %d types were looked at", command, len(seen))
		}
	}
}
