//go:build !linux

package reaptest

import "syscall"

// boundToParent changes nothing: there is no such bond here. The process stays in the test's group, so
// that the terminal's Ctrl-C at least reaches it.
func boundToParent() *syscall.SysProcAttr { return nil }
