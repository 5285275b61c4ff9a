// Package query reads the parameters of reap's own HTTP endpoints.
//
// It refuses parameters that an endpoint does not take: if a misspelt one counted as absent, the client would get
// something else than it asked for.
package query

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// Parameters is an example of a query, name=value&…, with all parameters that an endpoint takes. A parameter that the
// example has twice may be repeated.
type Parameters string

// timeout may be added to every query: clients of Kubernetes do so by themselves, and the API server acts on it.
const timeout = "timeout"

// Parse returns the parameters of a URL's query. It returns an error if the query is malformed, has a parameter that the
// endpoint does not take, or repeats one.
func (p Parameters) Parse(rawQuery string) (url.Values, error) {
	taken, err := url.ParseQuery(string(p))
	if err != nil {
		return nil, fmt.Errorf("reading the example of a query: %w", err)
	}
	given, err := url.ParseQuery(rawQuery)
	if err != nil {
		return nil, fmt.Errorf("reading the query: %w: percent-encode special characters", err)
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		switch times := len(given[name]); {
		case name == timeout:
		case taken[name] == nil && p == "":
			return nil, fmt.Errorf("there is no parameter %q: no parameters are taken here", name)
		case taken[name] == nil:
			return nil, fmt.Errorf("there is no parameter %q: give only %s", name, strings.Join(slices.Sorted(maps.Keys(taken)), ", "))
		case times > 1 && len(taken[name]) == 1:
			return nil, fmt.Errorf("%s is given %d times: give it once", name, times)
		}
	}
	return given, nil
}
