package manifest

import (
	"path/filepath"
	"strings"
	"testing"
)

// malformed are Secrets with the value hunter2 that cannot be read, and what their errors say. TestErrorsOfCommandsShowNoContent of
// pkg/cli has some of them.
var malformed = map[string]struct{ text, says string }{
	"no kind":                {"apiVersion: v1\nstringData: {password: hunter2}\n", "has no kind"},
	"no kind in JSON":        {`{"apiVersion": "v1", "stringData": {"password": "hunter2"}}`, "has no kind"},
	"kind is a mapping":      {"apiVersion: v1\nkind: {a: hunter2}\n", "has no kind"},
	"second document":        {anObject + "---\n# why\nstringData: {password: hunter2}\n", ", document 2 (line 5): it has no kind"},
	"a list's item":          {"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, stringData: {a: hunter2}}\n", "item 1 of the list has no kind"},
	"items in a mapping":     {"apiVersion: v1\nkind: List\nitems: {a: hunter2}\n", "items is not a list"},
	"items of scalars":       {"apiVersion: v1\nkind: List\nitems: [hunter2]\n", "items is not a list of objects"},
	"the value alone":        {"hunter2\n", "it is not an object"},
	"the value in JSON":      {`"hunter2"`, "it is not an object"},
	"a list of values":       {"- hunter2\n", "it is not an object"},
	"wrong type":             {"apiVersion: v1\nkind: Secret\nmetadata: hunter2\n", "metadata has a value of the wrong type"},
	"wrong label":            {"apiVersion: v1\nkind: Secret\nmetadata: {labels: [hunter2]}\n", "metadata.labels has a value of the wrong type"},
	"a number as a label":    {"apiVersion: v1\nkind: Secret\nmetadata: {labels: {a: 4711}}\n", "metadata.labels has a value of the wrong type"},
	"a time":                 {"apiVersion: v1\nkind: Secret\nmetadata: {creationTimestamp: hunter2}\n", "a time that is none"},
	"a number too large":     {"apiVersion: v1\nkind: Secret\nstringData: {password: 4711e4711}\n", ""},
	"a number in JSON":       {`{"apiVersion": "v1", "kind": "Secret", "stringData": {"password": 4711e4711}}`, "a number is out of range"},
	"JSON that is cut":       {`{"apiVersion": "v1", "kind": "Secret", "stringData": {"password": "hunter2`, "ends before the document"},
	"JSON with garbage":      {"{\"apiVersion\": \"v1\",\n\"kind\": \"Secret\", \"stringData\": {\"password\": hunter2, ]}}", "near line 2"},
	"JSON without quotes":    {`{"apiVersion": "v1", "kind": "Secret", "stringData": {"password": hunter2 hunter2: a}}`, "not valid JSON"},
	"JSON, an escape":        {`{"apiVersion": "v1", "kind": "Secret", "stringData": {"password": "hunter2\q"}}`, "not valid JSON"},
	"garbage after JSON":     {`{"apiVersion": "v1", "kind": "Secret"}hunter2`, "document 2 (line 1)"},
	"third of JSON":          {strings.Repeat(`{"apiVersion": "v1", "kind": "Secret"}`+"\n", 2) + "hunter2", "document 3 (line 3): it is not valid JSON near line 3"},
	"YAML that is cut":       {"apiVersion: v1\nkind: Secret\nstringData: {password: \"hunter2", "found unexpected end of stream"},
	"an unclosed mapping":    {"apiVersion: v1\nkind: Secret\nstringData: {password: hunter2", "did not find expected ',' or '}'"},
	"tabs":                   {"apiVersion: v1\nkind: Secret\nstringData:\n\tpassword: hunter2\n", "found character that cannot start any token near line 4"},
	"tabs in document 2":     {anObject + "---\napiVersion: v1\nkind: Secret\nstringData:\n\tpassword: hunter2\n", ", document 2 (line 5): it is not valid YAML: found character that cannot start any token near line 8"},
	"unknown escape":         {"apiVersion: v1\nkind: Secret\nstringData: {password: \"hunter2\\q\"}\n", "found unknown escape character"},
	"a colon":                {"apiVersion: v1\nkind: Secret\nstringData:\n  password: hunter2: a\n", "mapping values are not allowed"},
	"indentation":            {"apiVersion: v1\nkind: Secret\nstringData:\n  password: a\n hunter2: b\n", "not valid YAML"},
	"no colon":               {"apiVersion: v1\nkind: Secret\nstringData:\n  a: b\nhunter2\n", "could not find expected ':'"},
	"an alias":               {"apiVersion: v1\nkind: Secret\nstringData: {password: *hunter2}\n", "an alias (*) has no anchor (&)"},
	"an anchor in itself":    {"apiVersion: v1\nkind: Secret\nstringData: &hunter2 {password: *hunter2}\n", "contains itself"},
	"a tag":                  {"apiVersion: v1\nkind: Secret\nstringData: {password: !hunter2!a b}\n", "found undefined tag handle"},
	"a tag of a number":      {"apiVersion: v1\nkind: Secret\nstringData: {password: !!int hunter2}\n", "not valid YAML"},
	"binary":                 {"apiVersion: v1\nkind: Secret\nstringData: {password: !!binary hunter2%}\n", "not valid YAML"},
	"a mapping as a key":     {"apiVersion: v1\nkind: Secret\nstringData:\n  ? {hunter2: a}\n  : b\n", "a key is not a scalar"},
	"a list as a key":        {"apiVersion: v1\nkind: Secret\nstringData:\n  [hunter2]: b\n", "a key is not a scalar"},
	"null as a key":          {"apiVersion: v1\nkind: Secret\nstringData:\n  ~: hunter2\n", "a key is not a scalar"},
	"a merge":                {"apiVersion: v1\nkind: Secret\nstringData:\n  <<: hunter2\n", "map merge requires"},
	"after a separator":      {anObject + "--- hunter2\n", "text after ---"},
	"a directive":            {"%hunter2 a\n---\napiVersion: v1\n", "not valid YAML"},
	"a byte that is no text": {"apiVersion: v1\nkind: Secret\nstringData: {password: \"hunter2\x01\"}\n", "control characters"},
}

// TestErrorsShowNoContent: a manifest may be a Secret, so its values stay out of errors, which say the place instead.
func TestErrorsShowNoContent(t *testing.T) {
	for name, of := range malformed {
		path := filepath.Join(t.TempDir(), "secret.yaml")
		write(t, path, of.text)
		_, err := Load(t.Context(), []string{path}, false)
		if err == nil {
			if of.says != "" {
				t.Errorf("%s is read", name)
			}
			continue
		}
		if text := err.Error(); strings.Contains(text, "hunter2") || strings.Contains(text, "4711") || !strings.Contains(text, of.says) || !strings.Contains(text, "secret.yaml, document ") {
			t.Errorf("%s: %s, want %q", name, text, of.says)
		}
	}
}
