package config

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

// place is a layer, as a function that gives an option a value in it.
type place struct {
	name string
	give func(in *layers, option, value string)
}

func file(name string) func(*layers, string, string) {
	return func(in *layers, option, value string) {
		if in.files == nil {
			in.files = map[string]string{}
		}
		in.files[name] += fmt.Sprintf("%s: %q\n", option, value)
	}
}

// places, from the highest.
var places = []place{
	{"flag", func(in *layers, option, value string) { in.args = append(in.args, "--"+option+"="+value) }},
	{"environment", func(in *layers, option, value string) {
		in.env = map[string]string{"REAP_" + strings.ToUpper(strings.ReplaceAll(option, "-", "_")): value}
	}},
	{"later .d file", file("config.yaml.d/20.yaml")},
	{"earlier .d file", file("config.yaml.d/10.yaml")},
	{"main file", file("config.yaml")},
}

// kinds has an option of each kind, with a value for each place and the expected result. Every value differs
// from the default.
var kinds = []struct {
	kind   string
	option string
	values [5]string
	get    func(Server) any
	want   [5]any
}{
	{
		"string", "bind-address",
		[5]string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"},
		func(s Server) any { return s.BindAddress },
		[5]any{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"},
	},
	{
		"path", "data-dir",
		[5]string{"/a", "/b", "/c", "/d", "/e"},
		func(s Server) any { return s.DataDir },
		[5]any{"/a", "/b", "/c", "/d", "/e"},
	},
	{
		"int", "https-listen-port",
		[5]string{"0", "1", "2", "3", "4"},
		func(s Server) any { return s.HTTPSListenPort },
		[5]any{0, 1, 2, 3, 4},
	},
	{
		"bool", "gc-cycle-detection",
		[5]string{"false", "true", "0", "1", "f"},
		func(s Server) any { return s.GC.CycleDetection },
		[5]any{false, true, false, true, false},
	},
	{
		"duration", "gc-resync",
		[5]string{"1m", "0", "2h", "90s", "3h0m0s"},
		func(s Server) any { return s.GC.Resync },
		[5]any{time.Minute, time.Duration(0), 2 * time.Hour, 90 * time.Second, 3 * time.Hour},
	},
	{
		"mode", "write-kubeconfig-mode",
		[5]string{"0640", "644", "0o660", "0400", "0666"},
		func(s Server) any { return s.WriteKubeconfigMode },
		[5]any{os.FileMode(0o640), os.FileMode(0o644), os.FileMode(0o660), os.FileMode(0o400), os.FileMode(0o666)},
	},
	{
		"comma-separated list", "tls-san",
		[5]string{"a,b", "c, d", "e", "f,g", "h"},
		func(s Server) any { return s.TLSSANs },
		[5]any{[]string{"a", "b"}, []string{"c", "d"}, []string{"e"}, []string{"f", "g"}, []string{"h"}},
	},
	{
		"list of whole values", "kube-apiserver-arg",
		[5]string{"a=1,2", "b=1\nc=2", "d=,", "--e=f=g", "h="},
		func(s Server) any { return s.KubeAPIServerArgs },
		[5]any{[]string{"a=1,2"}, []string{"b=1", "c=2"}, []string{"d=,"}, []string{"e=f=g"}, []string{"h="}},
	},
}

func TestEachPlaceBeatsEachLowerOne(t *testing.T) {
	for _, k := range kinds {
		for high := range places {
			check := func(name string, low ...int) {
				t.Run(k.kind+"/"+places[high].name+" over "+name, func(t *testing.T) {
					var in layers
					places[high].give(&in, k.option, k.values[high])
					for _, l := range low {
						places[l].give(&in, k.option, k.values[l])
					}
					s, _, err := load(t, in)
					if err != nil {
						t.Fatal(err)
					}
					if got := k.get(s); !reflect.DeepEqual(got, k.want[high]) {
						t.Errorf("--%s is %v, want %v", k.option, got, k.want[high])
					}
				})
			}
			check("default")
			for low := high + 1; low < len(places); low++ {
				check(places[low].name, low)
			}
		}
	}
}

// An option set in a high layer must not hide other options in lower layers.
func TestEachOptionComesFromItsOwnPlace(t *testing.T) {
	s, _, err := load(t, layers{
		args:  []string{"--bind-address=10.0.0.1"},
		env:   map[string]string{"REAP_HTTPS_LISTEN_PORT": "1"},
		files: map[string]string{"config.yaml": "data-dir: /e\nlog-level: debug\n", "config.yaml.d/1.yaml": "log-level: warn"},
	})
	if err != nil {
		t.Fatal(err)
	}
	got := []any{s.BindAddress, s.HTTPSListenPort, s.DataDir, s.Log.Level, s.Log.Format}
	if want := []any{"10.0.0.1", 1, "/e", "warn", "text"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestLists(t *testing.T) {
	for _, tc := range []struct {
		name string
		in   layers
		want []string
	}{
		{"repeated flags add up", layers{args: []string{"--tls-san=a", "--tls-san=b,c"}}, []string{"a", "b", "c"}},
		{"names are in lower case", layers{args: []string{"--tls-san=Edge-1.Example.COM"}}, []string{"edge-1.example.com"}},
		{
			"an empty flag empties what a file gives",
			layers{args: []string{"--tls-san="}, files: map[string]string{"config.yaml": "tls-san: a"}}, nil,
		},
		{
			"an empty variable is one that is not set",
			layers{env: map[string]string{"REAP_TLS_SAN": ""}, files: map[string]string{"config.yaml": "tls-san: a"}},
			[]string{"a"},
		},
		{"a scalar is a list of one", layers{files: map[string]string{"config.yaml": "tls-san: a"}}, []string{"a"}},
		{"a YAML list", layers{files: map[string]string{"config.yaml": "tls-san:\n- a\n- 'b,c'\n"}}, []string{"a", "b", "c"}},
		{
			"a later file replaces",
			layers{files: map[string]string{"config.yaml": "tls-san: [a]", "config.yaml.d/1.yaml": "tls-san: [b]"}},
			[]string{"b"},
		},
		{
			"a later file empties",
			layers{files: map[string]string{"config.yaml": "tls-san: [a]", "config.yaml.d/1.yaml": "tls-san: []"}}, nil,
		},
		{
			"key+ appends, and again",
			layers{files: map[string]string{
				"config.yaml": "tls-san: [a]", "config.yaml.d/1.yaml": "tls-san+: [b]", "config.yaml.d/2.yaml": "tls-san+: c",
			}},
			[]string{"a", "b", "c"},
		},
		{
			"a key after key+ replaces all",
			layers{files: map[string]string{
				"config.yaml": "tls-san: [a]", "config.yaml.d/1.yaml": "tls-san+: [b]", "config.yaml.d/2.yaml": "tls-san: c",
			}},
			[]string{"c"},
		},
		{"key+ of nothing", layers{files: map[string]string{"config.yaml": "tls-san+: [a]"}}, []string{"a"}},
		{
			"key+ does not reach into the environment",
			layers{env: map[string]string{"REAP_TLS_SAN": "z"}, files: map[string]string{"config.yaml": "tls-san+: [a]"}},
			[]string{"z"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, _, err := load(t, tc.in)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(s.TLSSANs, tc.want) {
				t.Errorf("got %q, want %q", s.TLSSANs, tc.want)
			}
		})
	}
}

func TestAliasIsTheSameOption(t *testing.T) {
	for _, in := range []layers{
		{args: []string{"--gc-workers=7"}},
		{args: []string{"--concurrent-gc-syncs", "7"}},
		{env: map[string]string{"REAP_GC_WORKERS": "7"}},
		{files: map[string]string{"config.yaml": "concurrent-gc-syncs: 7"}},
	} {
		s, _, err := load(t, in)
		if err != nil {
			t.Fatal(err)
		}
		if s.GC.Workers != 7 {
			t.Errorf("%+v: got %d workers, want 7", in, s.GC.Workers)
		}
	}
}
