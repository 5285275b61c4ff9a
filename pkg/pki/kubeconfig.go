package pki

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const (
	// adminName is the administrator's user name in audit logs.
	adminName = "reap-admin"
	// clusterName is what `kubectl config get-contexts` shows.
	clusterName = "reap"
)

// WriteKubeconfig writes a self-contained kubeconfig for the administrator: CA,
// certificate and key are in it. server is a URL, such as https://127.0.0.1:6443.
//
// The file is replaced atomically and has exactly mode afterwards; it is not written
// if it is up to date. Missing parent directories are created with mode 0700. A
// symbolic link is followed, as by kubectl: people keep ~/.kube/config as a link. Its
// target is replaced; a dangling link is an error. Path must therefore be in a
// directory where nobody less trusted than the caller can create links.
func WriteKubeconfig(path string, mode os.FileMode, server string, f Files) error {
	if u, err := url.Parse(server); err != nil || u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("writing kubeconfig %s: server %q is not a URL: give one such as https://127.0.0.1:6443", path, server)
	}
	content, err := kubeconfig(server, f)
	if err != nil {
		return fmt.Errorf("writing kubeconfig %s: %w: start reap again, which makes the missing file", path, err)
	}
	target, err := kubeconfigTarget(path)
	if err != nil {
		return err
	}
	if info, err := os.Lstat(target); err == nil && info.Mode() == mode.Perm() {
		if old, err := os.ReadFile(target); err == nil && bytes.Equal(old, content) {
			return nil
		}
	}
	return writeAtomic(target, content, mode.Perm())
}

// kubeconfigTarget returns the file that path refers to, and creates its directory.
func kubeconfigTarget(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("resolving kubeconfig %s: %w: give an absolute path", path, err)
	}
	path = abs
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := makeDir(filepath.Dir(path)); err != nil {
			return "", fmt.Errorf("making the directory of kubeconfig %s: %w: choose another path, or make its parent writable", path, err)
		}
		return path, nil
	case err != nil:
		return "", fmt.Errorf("checking kubeconfig: %w: choose another path for it", err)
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := filepath.EvalSymlinks(path)
		if err != nil {
			return "", fmt.Errorf("following symbolic link %s: %w: remove the link, or create the file it points to", path, err)
		}
		if info, err = os.Stat(target); err != nil {
			return "", fmt.Errorf("checking kubeconfig: %w: choose another path for it", err)
		}
		path = target
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("writing kubeconfig %s: it exists and is not a regular file: choose another path", path)
	}
	return path, nil
}

func kubeconfig(server string, f Files) ([]byte, error) {
	ca, err := os.ReadFile(f.ServerCA)
	if err != nil {
		return nil, err
	}
	cert, err := os.ReadFile(f.AdminCert)
	if err != nil {
		return nil, err
	}
	key, err := os.ReadFile(f.AdminKey)
	if err != nil {
		return nil, err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[clusterName] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	config.AuthInfos[adminName] = &clientcmdapi.AuthInfo{ClientCertificateData: cert, ClientKeyData: key}
	config.Contexts[clusterName] = &clientcmdapi.Context{Cluster: clusterName, AuthInfo: adminName}
	config.CurrentContext = clusterName
	return clientcmd.Write(*config)
}
