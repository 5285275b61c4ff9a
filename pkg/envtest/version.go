package envtest

import (
	"fmt"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

var (
	// selector is a version as setup-envtest takes one. An exclamation mark at its end asks for the newest that can be downloaded.
	selector = regexp.MustCompile(`^(<=|<|~)?(0|[1-9]\d*)\.(0|[1-9]\d*)(?:\.(0|[1-9]\d*|x|\*))?!?$`)
	// likeVersion is what is meant as one.
	likeVersion = regexp.MustCompile(`^[<>=~^v]*\d+\.[^/]*$`)
	concrete    = regexp.MustCompile(`^v?(\d+)\.(\d+)\.(\d+)`)
	latest      = []string{"latest", "latest-on-disk"}
)

// MeansVersion reports whether the argument of setup-envtest's "use" is meant as a version. A folder can be told from one by
// a slash: ./1.37.
func MeansVersion(argument string) bool {
	return slices.Contains(latest, argument) || likeVersion.MatchString(argument)
}

// Selects reports whether a selector, such as 1.37.x, matches a version of Kubernetes, such as v1.37.1. It returns an error if
// the selector is not one that setup-envtest takes.
func Selects(expression, version string) (bool, error) {
	have, err := numbers(version)
	if err != nil {
		return false, err
	}
	if slices.Contains(latest, expression) {
		return true, nil
	}
	parts := selector.FindStringSubmatch(expression)
	if parts == nil {
		return false, fmt.Errorf("%q is no version: give X.Y.Z, X.Y or X.Y.x, with ~, < or <= before it if need be, or latest", expression)
	}
	var want []int
	for _, part := range parts[2:] {
		if slices.Contains([]string{"", "x", "*"}, part) {
			continue
		}
		n, err := strconv.Atoi(part)
		if err != nil {
			return false, fmt.Errorf("%q is no version: %w", expression, err)
		}
		want = append(want, n)
	}
	order := slices.Compare(have[:len(want)], want)
	switch parts[1] {
	case "<":
		return order < 0, nil
	case "<=":
		return order <= 0, nil
	case "~":
		return slices.Equal(have[:2], want[:2]) && order >= 0, nil
	}
	return order == 0, nil
}

// DirIn returns the folder for a version below the one that setup-envtest calls --bin-dir, where setup-envtest would put it.
func DirIn(binDir, version string) (string, error) {
	have, err := numbers(version)
	if err != nil {
		return "", err
	}
	return filepath.Join(binDir, "k8s", fmt.Sprintf("%d.%d.%d-%s-%s", have[0], have[1], have[2], runtime.GOOS, runtime.GOARCH)), nil
}

// numbers returns major, minor and patch version.
func numbers(version string) ([]int, error) {
	parts := concrete.FindStringSubmatch(version)
	if parts == nil {
		return nil, fmt.Errorf("%q is no version of Kubernetes", strings.TrimPrefix(version, "v"))
	}
	var all []int
	for _, part := range parts[1:] {
		n, err := strconv.Atoi(part)
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, nil
}
