package cli

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/pki"
)

// dataDirWithCertificates is a data directory as a server leaves it, without the database.
func dataDirWithCertificates(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	f, err := pki.Ensure(config.PKIDir(dir), pki.Options{Hosts: []string{"edge.example.com"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := pki.WriteKubeconfig(config.AdminKubeconfig(dir), 0o600, "https://127.0.0.1:16443", f); err != nil {
		t.Fatal(err)
	}
	return dir
}

// contents is everything in dir, with modes and times of change.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		found[path] = info.Mode().String() + info.ModTime().String()
		if d.Type().IsRegular() {
			raw, err := os.ReadFile(path)
			found[path] += string(raw)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func changes(before, after map[string]string) []string {
	var names []string
	for path, content := range after {
		if before[path] != content {
			names = append(names, filepath.Base(path))
		}
	}
	slices.Sort(names)
	return names
}

func TestCertificateCheck(t *testing.T) {
	dir := dataDirWithCertificates(t)
	before := contents(t, dir)
	got := reap(t, nil, "certificate", "check", "--data-dir", dir)
	if got.code != exitOK || got.stderr != "" || strings.Count(got.stdout, "\n") != 7 {
		t.Errorf("%+v", got)
	}
	for _, part := range []string{"NAME", "server-ca", "CN=kube-apiserver", "edge.example.com", "never", filepath.Join(dir, "pki", "admin.crt")} {
		if !strings.Contains(got.stdout, part) {
			t.Errorf("%q is not in %s", part, got.stdout)
		}
	}

	if !regexp.MustCompile(` 36[45]d `).MatchString(got.stdout) {
		t.Errorf("a year is not in %s", got.stdout)
	}

	got = reap(t, []string{"REAP_DATA_DIR=" + dir}, "certificate", "check", "-o", "json")
	var r struct{ Certificates []map[string]any }
	if err := json.Unmarshal([]byte(got.stdout), &r); err != nil || got.code != exitOK || len(r.Certificates) != 6 {
		t.Fatalf("%+v: %v", got, err)
	}
	for _, field := range []string{"name", "file", "authority", "subject", "serial", "sans", "expires", "remainingSeconds", "verdict"} {
		if r.Certificates[3][field] == nil {
			t.Errorf("no %s in %v", field, r.Certificates[3])
		}
	}

	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "pki", name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if names := changes(before, contents(t, dir)); names != nil {
		t.Errorf("check changed %v", names)
	}
	write("admin.key", "x")
	before = contents(t, dir)
	got = reap(t, nil, "certificate", "check", "--data-dir", dir)
	want := "reap: 1 of 6 certificates are not in order: admin (wrong-key); 'reap certificate rotate' makes new ones\n"
	if got.code != exitRun || got.stderr != want || strings.Count(got.stdout, "\n") != 7 {
		t.Errorf("%+v", got)
	}
	write("admin.crt", "x")
	got = reap(t, nil, "certificate", "check", "--data-dir", dir)
	if got.code != exitRun || got.stdout != "" || strings.Count(got.stderr, "\n") != 1 || !strings.Contains(got.stderr, filepath.Join(dir, "pki", "admin.crt")) {
		t.Errorf("%+v", got)
	}
	if names := changes(before, contents(t, dir)); !slices.Equal(names, []string{"admin.crt"}) {
		t.Errorf("check changed %v", names)
	}
}

func TestCertificateRotate(t *testing.T) {
	dir := dataDirWithCertificates(t)
	before := contents(t, dir)
	got := reap(t, nil, "certificate", "rotate", "serving", "--data-dir", dir)
	if got.code != exitOK || got.stderr != "" || !strings.HasPrefix(got.stdout, "serving  new, until ") || strings.Contains(got.stdout, "kubeconfig") {
		t.Errorf("%+v", got)
	}
	// The directory's own time of change is among them.
	one := contents(t, dir)
	if names := changes(before, one); !slices.Equal(names, []string{"pki", "serving.crt", "serving.key"}) {
		t.Errorf("serving alone: changed %v", names)
	}
	got = reap(t, nil, "certificate", "rotate", "--data-dir", dir, "--output=json")
	var r rotated
	if err := json.Unmarshal([]byte(got.stdout), &r); err != nil || got.code != exitOK || len(r.Rotated) != 3 || r.Kubeconfig != config.AdminKubeconfig(dir) {
		t.Fatalf("%+v: %v", got, err)
	}
	for _, c := range r.Rotated {
		if c.Verdict != pki.OK || time.Until(c.Expires) < 364*24*time.Hour {
			t.Errorf("%+v", c)
		}
	}
	for path, content := range contents(t, dir) {
		if isLeaf := slices.Contains([]string{".crt", ".key"}, filepath.Ext(path)) && !strings.Contains(path, "-ca.") && !strings.Contains(path, "service-account"); isLeaf && one[path] == content {
			t.Errorf("%s is the old one", path)
		} else if filepath.Ext(path) == ".kubeconfig" && (one[path] == content || !strings.Contains(content, "https://127.0.0.1:16443") || !strings.HasPrefix(content, "-rw-------")) {
			t.Errorf("the kubeconfig is %s", content)
		}
	}
	if got := reap(t, nil, "certificate", "check", "--data-dir", dir); got.code != exitOK {
		t.Errorf("%+v", got)
	}
}

func TestCertificateMistakes(t *testing.T) {
	dir := dataDirWithCertificates(t)
	before := contents(t, dir)
	none := filepath.Join(t.TempDir(), "none")
	for line, want := range map[string]string{
		"certificate chekc":                "unknown command \"chekc\" (did you mean \"check\"?); see 'reap certificate --help'",
		"certificate chekc -o json":        "unknown command \"chekc\" (did you mean \"check\"?); see 'reap certificate --help'",
		"certificate check serving":        "reap certificate check takes no arguments, only flags, and got \"serving\"; see 'reap certificate check --help'",
		"certificate check -o yaml":        "--output has to be text or json, not \"yaml\"",
		"certificate rotate servng":        "no certificate is called \"servng\" (did you mean \"serving\"?): there is serving, admin, front-proxy; see 'reap certificate rotate --help'",
		"certificate rotate admin nothing": "no certificate is called \"nothing\": there is serving, admin, front-proxy; see 'reap certificate rotate --help'",
		"certificate rotate server-ca":     "\"server-ca\" cannot be rotated: authorities are replaced by hand; there is serving, admin, front-proxy; see 'reap certificate rotate --help'",
		"certificate rotate --al":          "unknown flag --al; see 'reap certificate rotate --help'",
		"certificate check --data-dir " + none: "--data-dir: no server has run on " + none + ": start it with 'reap server --data-dir " +
			none + "'",
	} {
		got := reap(t, []string{"REAP_DATA_DIR=" + dir}, strings.Fields(line)...)
		if want := (result{exitUsage, "", "reap: " + want + "\n"}); got != want {
			t.Errorf("%s: got %+v\nwant %+v", line, got, want)
		}
	}
	if names := changes(before, contents(t, dir)); names != nil {
		t.Errorf("changed %v", names)
	}
	if _, err := os.Stat(none); err == nil {
		t.Error("the directory was made")
	}
}

// TestRotateLeavesANewerBuildsDirectoryAlone: this build does not know what its certificates have to be.
func TestRotateLeavesANewerBuildsDirectoryAlone(t *testing.T) {
	for content, says := range map[string]string{
		`{"format": 99, "version": "v9.9.9"}`: "reap v9.9.9 wrote the data directory",
		`{"format": 99}`:                      "a newer reap wrote the data directory",
		`{}`:                                  "format.json is damaged",
	} {
		dir := dataDirWithCertificates(t)
		writeFile(t, filepath.Join(dir, "format.json"), content)
		before := contents(t, dir)
		got := reap(t, nil, "certificate", "rotate", "--data-dir", dir)
		if got.code != exitRun || got.stdout != "" || strings.Count(got.stderr, "\n") != 1 || !strings.Contains(got.stderr, says) {
			t.Errorf("%s: %+v", content, got)
		}
		if names := changes(before, contents(t, dir)); names != nil {
			t.Errorf("%s: changed %v", content, names)
		}
	}
}

// TestCertificatesAreTheOwners: nobody else can look or write, and is told whom to be.
func TestCertificatesAreTheOwners(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a directory away")
	}
	dir := dataDirWithCertificates(t)
	if err := os.Chown(config.PKIDir(dir), 65534, 65534); err != nil {
		t.Fatal(err)
	}
	before := contents(t, dir)
	got := reap(t, nil, "certificate", "rotate", "--data-dir", dir)
	if got.code != exitRun || got.stdout != "" || strings.Count(got.stderr, "\n") != 1 || !strings.Contains(got.stderr, "run this as that user") {
		t.Errorf("%+v", got)
	}
	if names := changes(before, contents(t, dir)); names != nil {
		t.Errorf("changed %v", names)
	}
}
