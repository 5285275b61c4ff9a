package report

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reap-dev/reap/tests/goldenfile"
)

// TestReferenceOfPaths compares docs/http.md with the paths that a Handler serves.
func TestReferenceOfPaths(t *testing.T) {
	var b strings.Builder
	b.WriteString("| path | parameters | answer |\n|---|---|---|\n")
	for _, e := range endpoints {
		parameters := "none"
		if e.query != "" {
			parameters = "`?" + e.query + "`"
		}
		fmt.Fprintf(&b, "| `%s%s` | %s | %s |\n", Root, e.name, parameters, e.does)
	}
	for _, path := range GraphPaths {
		fmt.Fprintf(&b, "| `%s` | `?uid=UID&uid=…` | the graph in DOT (`text/vnd.graphviz`), where kube-controller-manager serves that of its collector: the objects that are connected with those UIDs, or all |\n", path)
	}
	goldenfile.Section(t, filepath.Join("..", "..", "..", "docs", "http.md"), "The list of reports", b.String())
}
