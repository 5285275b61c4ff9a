package config

import "path/filepath"

const dataDirName = "data-dir"

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

// PKIDir is where a server on the data directory keeps its certificates and keys.
func PKIDir(dataDir string) string {
	return filepath.Join(dataDir, "pki")
}

// SnapshotDir is where snapshots of the server on the data directory are unless somebody says otherwise.
func SnapshotDir(dataDir string) string {
	return filepath.Join(dataDir, "snapshots")
}

// AdminKubeconfig is the kubeconfig that a server on the data directory writes for its administrator.
func AdminKubeconfig(dataDir string) string {
	return filepath.Join(dataDir, "admin.kubeconfig")
}
