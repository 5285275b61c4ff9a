package config

import (
	"errors"
	"strings"
	"testing"
)

// FuzzFile reads anything as a configuration file, with another one over it: it is understood, or one error names the file.
func FuzzFile(f *testing.F) {
	for _, s := range []string{
		"", "# nothing\n", "---\n", "data-dir: /srv/reap\nhttps-listen-port: 0600\n", "tls-san: &a [10.0.0.1]\nbind-address: *a\n", "tls-san+: [a, b]\n",
		"bind-address: null\n", "bind-address: {a: b}\n", "? [a, b]\n: c\n", "a: &x [*x]\n", "<<: {bind-address: ::1}\n", "- a\n", "a: b\n---\nc: d\n", "config: x\n",
		"bind-address: a\nbind-address: b\n", "\x00", "%YAML 9.9\n---\n", "!!binary a: b\n", "tls-san: [~]\n", "kube-apiserver-arg: [\"a=b\", 'c']\n", "\xff\xfe", "{", "&a *a", "*a",
	} {
		f.Add(s, "tls-san+: [c]\n")
	}
	f.Add("tls-san: [a]", "tls-san: []")
	f.Fuzz(func(t *testing.T, below, above string) {
		s := DefaultServer()
		options := s.options()
		merged := settings{}
		for i, content := range []string{below, above} {
			path := []string{"/etc/reap/config.yaml", "/etc/reap/config.yaml.d/10.yaml"}[i]
			err := merged.merge(path, []byte(content), options)
			if err == nil {
				continue
			}
			if !strings.HasPrefix(err.Error(), path+":") || errors.Unwrap(err) == nil && strings.TrimSpace(strings.TrimPrefix(err.Error(), path+":")) == "" {
				t.Errorf("an error that does not say where: %v", err)
			}
			return
		}
		for name, all := range merged {
			o, err := findOption(name, options)
			if err != nil || o.name != name || len(all) != 1 && !o.list {
				t.Fatalf("%s has %d values: %v", name, len(all), err)
			}
			for _, v := range all {
				if !strings.Contains(v.source, "/etc/reap/config.yaml") {
					t.Errorf("a value of %s is %q", name, v.source)
				}
			}
			if err := apply(o, all); err != nil && !strings.Contains(err.Error(), name) {
				t.Errorf("an error about %s that does not say so: %v", name, err)
			}
		}
	})
}
