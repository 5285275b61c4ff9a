// Package asreap lets a test binary be reap. It is that with the race detector only: linking kube-apiserver into a test binary takes
// half a minute and gigabytes of memory, and without the detector tests start the built binary, as users do.
//
// TestMain calls Main before all else.
package asreap
