package envtest

import (
	"runtime"
	"testing"
)

// TestVersionsAreSelectedAsBySetupEnvtest: the selectors are those of its README, its help, and of Makefiles.
func TestVersionsAreSelectedAsBySetupEnvtest(t *testing.T) {
	for selector, want := range map[string]bool{
		"1.37": true, "1.37.x": true, "1.37.*": true, "1.37.x!": true, "1.37!": true, "1.37.1": true, "1.37.1!": true,
		"latest": true, "latest-on-disk": true, "~1.37.0": true, "~1.37.1": true, "~1.37": true, "~1.37.x": true,
		"<1.38": true, "<=1.37": true, "<=1.37.1": true, "<1.37.2": true, "<2.0": true,
		"1.36": false, "1.38.x": false, "1.37.2": false, "1.37.0": false, "2.37": false, "1.3": false, "1.371.x": false,
		"~1.37.2": false, "~1.36.0": false, "~1.38.0": false, "<1.37": false, "<1.37.1": false, "<=1.37.0": false, "<=1.36": false,
	} {
		if got, err := Selects(selector, "v1.37.1"); err != nil || got != want {
			t.Errorf("%s: %v (%v)", selector, got, err)
		}
		if !MeansVersion(selector) {
			t.Errorf("%s is taken for a folder", selector)
		}
	}
}

// TestMistakenVersionIsNoFolder: a folder of this name would be the surprise.
func TestMistakenVersionIsNoFolder(t *testing.T) {
	for _, wrong := range []string{"v1.37.1", "1.37.x.", "1.37.1-rc.0", ">1.37", "^1.37", "1.x", "1.37.y", "01.37", "1.37.x!!", "=1.37", "1.99999999999999999999"} {
		if !MeansVersion(wrong) {
			t.Errorf("%s is taken for a folder", wrong)
		}
		if got, err := Selects(wrong, "v1.37.1"); got || err == nil {
			t.Errorf("%s: %v (%v)", wrong, got, err)
		}
	}
	for _, folder := range []string{"bin/reap-envtest", "./1.37", "assets", "/tmp/1.37.x", "../1.37.1", "1", "v", "envtest.d"} {
		if MeansVersion(folder) {
			t.Errorf("%s is taken for a version", folder)
		}
	}
}

func TestFolderIsWhereSetupEnvtestWouldPutIt(t *testing.T) {
	got, err := DirIn("bin", "v1.37.1+reap")
	if want := "bin/k8s/1.37.1-" + runtime.GOOS + "-" + runtime.GOARCH; err != nil || got != want {
		t.Errorf("%s and not %s (%v)", got, want, err)
	}
	for _, version := range []string{"", "unknown", "v1.37"} {
		if _, err := DirIn("bin", version); err == nil {
			t.Errorf("%q is a version", version)
		}
	}
}
