package integration

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// documentedPath is a row of docs/http.md: a path, and who may ask or, for a report, which parameters it takes.
var documentedPath = regexp.MustCompile("(?m)^\\| `(/[^`]*)` \\| ([^|]*) \\|")

// TestReferenceOfPathsOfAServer holds docs/http.md against what a server says that it serves, both ways.
func TestReferenceOfPathsOfAServer(t *testing.T) {
	s := shared(t)
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "http.md"))
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(s.config)
	if err != nil {
		t.Fatal(err)
	}
	anonymous := s.anonymous(t)
	ordinary := rest.CopyConfig(s.config)
	ordinary.Impersonate.UserName = "user-without-roles"
	user, err := rest.HTTPClientFor(ordinary)
	if err != nil {
		t.Fatal(err)
	}
	documented := []string{}
	for _, row := range documentedPath.FindAllStringSubmatch(string(doc), -1) {
		path, who := strings.ReplaceAll(row[1], "NAME", "ping"), row[2]
		documented = append(documented, path)
		if code := status(t, client, s.URL+path); code == http.StatusNotFound {
			t.Errorf("%s is documented and answers %d", path, code)
		}
		if code := status(t, anonymous, s.URL+path); (code == http.StatusOK) != (who == "anybody") {
			t.Errorf("%s is documented for %q and answers %d without credentials", path, who, code)
		}
		if code := status(t, user, s.URL+path); (code == http.StatusOK) != (who == "anybody" || who == "every user") {
			t.Errorf("%s is documented for %q and answers %d to a user without roles", path, who, code)
		}
	}
	if len(documented) < 15 {
		t.Fatalf("docs/http.md has only %q", documented)
	}
	raw, err := s.get(t.Context(), "/")
	if err != nil {
		t.Fatal(err)
	}
	var index struct{ Paths []string }
	if err := json.Unmarshal(raw, &index); err != nil {
		t.Fatal(err)
	}
	for _, path := range index.Paths {
		path = strings.TrimSuffix(path, "/")
		if !slices.ContainsFunc(documented, func(d string) bool {
			return path == d || strings.HasPrefix(path, d+"/") || strings.HasPrefix(d, path+"/")
		}) {
			t.Errorf("%s is served, and docs/http.md does not have it", path)
		}
	}
}
