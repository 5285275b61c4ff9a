//go:build suites

// Package envtest is a module for tests of reap under controller-runtime's envtest. This file is never built: it has
// go.mod name what controller-runtime's own tests need besides.
package envtest

import (
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/google/gofuzz"
	_ "github.com/onsi/ginkgo/v2"
	_ "github.com/onsi/gomega"
	_ "go.uber.org/goleak"
	_ "k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	_ "k8s.io/apiserver/pkg/authorization/authorizerfactory"
)
