package apiserver

import (
	"bytes"
	"net"
	"os"
	"regexp"
	"slices"
	"testing"

	kubeoptions "k8s.io/kubernetes/pkg/kubeapiserver/options"
)

// TestEveryDefaultAdmissionPluginIsDecidedAbout fails if a new version of Kubernetes has a new plugin. Somebody
// then has to decide whether the plugin relies on a controller.
func TestEveryDefaultAdmissionPluginIsDecidedAbout(t *testing.T) {
	raw, err := os.ReadFile("../../docs/controllers.md")
	if err != nil {
		t.Fatal(err)
	}
	decisions := map[string]string{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([A-Za-z]+) \| (on|off) \|(.*)`).FindAllSubmatch(raw, -1) {
		decisions[string(row[1])] = string(row[2])
		for _, c := range relying[string(row[1])] {
			if !bytes.Contains(row[3], []byte("`"+c+"`")) {
				t.Errorf("docs/controllers.md does not say that %s relies on %s", row[1], c)
			}
		}
	}
	off := kubeoptions.DefaultOffAdmissionPlugins()
	var want []string
	for _, name := range kubeoptions.AllOrderedPlugins {
		if off.Has(name) {
			continue
		}
		want = append(want, name)
		decision := "on"
		if controllers, relies := relying[name]; relies && len(controllers) == 0 {
			decision = "off"
		}
		if decisions[name] != decision {
			t.Errorf("%s is %s and docs/controllers.md says %q", name, decision, decisions[name])
		}
	}
	for name := range decisions {
		if !slices.Contains(want, name) {
			t.Errorf("docs/controllers.md decides about %s, which is no plugin that is on by default", name)
		}
	}
	for name := range relying {
		if !slices.Contains(want, name) {
			t.Errorf("%s relies on controllers and is no plugin that is on by default", name)
		}
	}
}

func TestUserDecidesAboutAdmissionPlugins(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() }) // nothing was sent
	all := func(string) bool { return true }
	without := func(name string) func(string) bool { return func(c string) bool { return c != name } }
	for _, tc := range []struct {
		runs     func(string) bool
		args     []string
		off, not string
	}{
		{nil, nil, "ResourceQuota", "LimitRanger"},
		{all, nil, "TaintNodesByCondition", "ResourceQuota"},
		{all, nil, "PodGroupProtection", "StorageObjectInUseProtection"},
		{without("resourcequota"), nil, "ResourceQuota", "StorageObjectInUseProtection"},
		{without("pv-protection"), nil, "StorageObjectInUseProtection", "ResourceQuota"},
		{all, []string{"disable-admission-plugins=ResourceQuota"}, "ResourceQuota", "Priority"},
		{nil, []string{"disable-admission-plugins=LimitRanger"}, "ResourceQuota", "Priority"},
		{nil, []string{"disable-admission-plugins=LimitRanger"}, "LimitRanger", "Priority"},
		{nil, []string{"enable-admission-plugins=AlwaysPullImages,ResourceQuota"}, "TaintNodesByCondition", "ResourceQuota"},
	} {
		s, err := runOptions(Options{Listener: listener, Args: tc.args, Runs: tc.runs})
		if err != nil {
			t.Fatal(err)
		}
		got := s.Admission.GenericAdmission.DisablePlugins
		if !slices.Contains(got, tc.off) || slices.Contains(got, tc.not) {
			t.Errorf("with %q, these are off: %q", tc.args, got)
		}
		for _, err := range s.Admission.Validate() {
			t.Errorf("with %q: %v", tc.args, err)
		}
	}
}
