package config

import "path/filepath"

// defaultDataDir is /var/lib/reap for root and reap under the XDG data home for everyone else, or ""
// where there is no home. As the XDG specification asks, a relative $XDG_DATA_HOME counts as none.
func defaultDataDir(euid int, lookupEnv func(string) (string, bool)) string {
	if euid == 0 {
		return "/var/lib/reap"
	}
	if dir, _ := lookupEnv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "reap")
	}
	if home, _ := lookupEnv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "share", "reap")
	}
	return ""
}
