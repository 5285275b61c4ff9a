package config

import (
	"reflect"
	"slices"
	"testing"
)

// twoValues has two values for every option. Neither is the default, unless the option has only two values.
var twoValues = map[string][2]string{
	"data-dir":                      {"/a", "/b"},
	"datastore-endpoint":            {"postgres://a/reap", "mysql://b"},
	"datastore-timeout":             {"5m", "1h"},
	"sqlite-synchronous":            {"normal", "full"},
	"datastore-reserve":             {"0", "32"},
	"bind-address":                  {"10.0.0.1", "::1"},
	"https-listen-port":             {"0", "7443"},
	"tls-san":                       {"a,b", "c"},
	"write-kubeconfig":              {"/a", "/b"},
	"write-kubeconfig-mode":         {"0640", "0400"},
	"disable":                       {"gc,job", "controllers"},
	"kube-apiserver-arg":            {"a=1,2", "b=3"},
	"gc-workers":                    {"7", "8"},
	"gc-ignore":                     {"widgets.example.com", "secrets,pods"},
	"gc-resync":                     {"2m", "0"},
	"gc-sync-timeout":               {"1m", "0"},
	"gc-sync-timeout-per-dependent": {"1s", "0"},
	"gc-cycle-detection":            {"false", "true"},
	"gc-check":                      {"1m", "2m"},
	"gc-orphan-timeout":             {"1m", "2m"},
	"gc-after-restore":              {"run", "hold"},
	"new-store":                     {"true", "false"},
	"new-authorities":               {"true", "false"},
	"accept-revision":               {"17", "18"},
	"snapshot-interval":             {"1h", "24h"},
	"snapshot-retain":               {"7", "8"},
	"snapshot-dir":                  {"/a", "/b"},
	"log-level":                     {"debug", "error"},
	"gc-guard":                      {"100", "7"},
	"log-format":                    {"json", "text"},
}

// TestEveryOptionInEveryPlace gives each option of the server in each place, alone and over each lower place.
// The result must be the same as with the flag alone, and each option must set exactly one field, its own.
func TestEveryOptionInEveryPlace(t *testing.T) {
	must := func(in layers) Server {
		t.Helper()
		s, _, err := load(t, in)
		if err != nil {
			t.Fatalf("%+v: %v", in, err)
		}
		return s
	}
	defaults := must(layers{})
	setBy := map[string]string{} // a field's name to its option's name
	for _, o := range (&Server{}).options() {
		values, known := twoValues[o.name]
		if !known {
			t.Errorf("--%s is not in this test's table", o.name)
			continue
		}
		var want [2]Server
		for i, value := range values {
			var in layers
			places[0].give(&in, o.name, value)
			want[i] = must(in)
		}
		fields := differences(reflect.ValueOf(defaults), reflect.ValueOf(want[0]), "")
		if len(fields) != 1 || setBy[fields[0]] != "" {
			t.Fatalf("--%s=%s sets %v, want one field that no other option sets; %q set it before", o.name, values[0], fields, setBy[fields[0]])
		}
		setBy[fields[0]] = o.name
		if reflect.DeepEqual(want[0], want[1]) {
			t.Fatalf("--%s: %q and %q have the same effect", o.name, values[0], values[1])
		}
		for high := range places {
			for i, value := range values {
				var alone layers
				places[high].give(&alone, o.name, value)
				if got := must(alone); !reflect.DeepEqual(got, want[i]) {
					t.Errorf("--%s in the %s: got %+v, want %+v", o.name, places[high].name, got, want[i])
				}
				for _, low := range places[high+1:] {
					var both layers
					places[high].give(&both, o.name, value)
					low.give(&both, o.name, values[1-i])
					if got := must(both); !reflect.DeepEqual(got, want[i]) {
						t.Errorf("--%s in the %s over the %s: got %+v, want %+v", o.name, places[high].name, low.name, got, want[i])
					}
				}
			}
		}
	}
}

// differences returns the paths of the fields in which two structs differ.
func differences(a, b reflect.Value, path string) (fields []string) {
	for i := range a.NumField() {
		name := path + a.Type().Field(i).Name
		switch x, y := a.Field(i), b.Field(i); {
		case x.Kind() == reflect.Struct:
			fields = slices.Concat(fields, differences(x, y, name+"."))
		case !reflect.DeepEqual(x.Interface(), y.Interface()):
			fields = append(fields, name)
		}
	}
	return fields
}
