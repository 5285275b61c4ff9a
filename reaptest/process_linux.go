package reaptest

import "syscall"

// boundToParent makes the kernel kill the process when the thread that starts it ends, which it does with
// the test process at the latest. A group of its own keeps the terminal's Ctrl-C from it: tests may still
// want it for their cleanups.
func boundToParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
