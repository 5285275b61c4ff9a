package envtest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// memoryOf returns the anonymous memory, in MiB, of the programs of a running environment.
func memoryOf(env *envtest.Environment) (map[string]float64, error) {
	all := map[string]float64{}
	for program, argument := range map[string]string{
		"kube-apiserver": "--cert-dir=" + env.ControlPlane.APIServer.CertDir,
		"etcd":           "--data-dir=" + env.ControlPlane.Etcd.DataDir,
	} {
		mib, err := anonymous(argument)
		if err != nil {
			return nil, err
		}
		all[program] = mib
	}
	return all, nil
}

// anonymous returns the RssAnon, in MiB, of the process that has an argument.
func anonymous(argument string) (float64, error) {
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return 0, err
	}
	for _, path := range paths {
		line, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(line, []byte("\x00"+argument+"\x00")) {
			continue // another one, or it has ended
		}
		status, err := os.ReadFile(filepath.Join(filepath.Dir(path), "status"))
		if err != nil {
			return 0, err
		}
		for l := range strings.Lines(string(status)) {
			var kib float64
			if _, err := fmt.Sscanf(l, "RssAnon: %f kB", &kib); err == nil {
				return kib / 1024, nil
			}
		}
	}
	return 0, fmt.Errorf("no process has the argument %s", argument)
}
