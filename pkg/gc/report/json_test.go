package report

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

// TestFieldsAreDocumented: each JSON field of a report is in docs/json.md.
func TestFieldsAreDocumented(t *testing.T) {
	raw, err := os.ReadFile("../../../docs/json.md")
	if err != nil {
		t.Fatal(err)
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
			if name != "" && name != "-" && !strings.Contains(string(raw), "`"+name+"`") {
				t.Errorf("%s.%s is not documented", of, name)
			}
			fields(f.Type)
		}
	}
	for _, r := range []any{Status{}, Why{}, Release{}, Deleted{}} {
		fields(reflect.TypeOf(r))
	}
	if len(seen) < 10 {
		t.Errorf("only %d types were looked at", len(seen))
	}
}
