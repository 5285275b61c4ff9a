package query

import "testing"

func TestOnlyTheParametersOfAnEndpointAreTaken(t *testing.T) {
	const tree, none = Parameters("object=TYPE/UID&object=…&limit=200"), Parameters("")
	for _, tc := range []struct {
		takes Parameters
		query string
		err   string // "" if it is taken
	}{
		{none, "", ""},
		{none, "timeout=32s", ""}, // client-go adds it
		{none, "limit=1", `there is no parameter "limit": no parameters are taken here`},
		{tree, "", ""},
		{tree, "limit=1&object=a/1&object=b/2&timeout=1s", ""},
		{tree, "Limit=1", `there is no parameter "Limit": give only limit, object`},
		{tree, "=1", `there is no parameter "": give only limit, object`},
		{tree, "limit=1&limit=2", `limit is given 2 times: give it once`},
		{tree, "limit=1;object=a/1", `reading the query: invalid semicolon separator in query: percent-encode special characters`},
		{tree, "limit=%zz", `reading the query: invalid URL escape "%zz": percent-encode special characters`},
	} {
		_, err := tc.takes.Parse(tc.query)
		if tc.err == "" && err != nil || tc.err != "" && (err == nil || err.Error() != tc.err) {
			t.Errorf("%q of an endpoint that takes %q: %v", tc.query, tc.takes, err)
		}
	}
	q, err := tree.Parse("object=a%2F1&object=b/2&limit=")
	if err != nil || len(q["object"]) != 2 || q["object"][0] != "a/1" || !q.Has("limit") {
		t.Errorf("read as %v (%v)", q, err)
	}
}
