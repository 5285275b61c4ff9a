package config

import "path/filepath"

const dataDirName = "data-dir"

// defaultDataDir returns /var/lib/reap for root, reap below the XDG data home for everyone else, and ""
// if there is no home directory. As the XDG specification requires, a relative $XDG_DATA_HOME is ignored.
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

// PKIDir returns the directory below the data directory for certificates and keys.
func PKIDir(dataDir string) string {
	return filepath.Join(dataDir, "pki")
}

// SnapshotDir returns the default directory for snapshots of the server that uses the data directory.
func SnapshotDir(dataDir string) string {
	return filepath.Join(dataDir, "snapshots")
}

// AdminKubeconfig returns the path of the kubeconfig that the server writes for its administrator.
func AdminKubeconfig(dataDir string) string {
	return filepath.Join(dataDir, "admin.kubeconfig")
}
