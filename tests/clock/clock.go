// Package clock sets the wall clock of one process, and no other's: neither the machine's nor the tests'. The process is the
// program as it was built. It reads the time as all Go programs do on Linux, by a function that the kernel maps into each
// process (the vDSO, see vdso(7)). Clock replaces that function, in the process's own copy, by one that adds an offset.
//
// Elapsed time (CLOCK_MONOTONIC) goes on as it does, as when somebody sets the clock of a machine. Times of files are the
// machine's.
package clock

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Clock is the wall clock of a process. It is for one goroutine.
type Clock struct {
	memory string // the file of the process's memory
	offset int64  // where the offset is in it
}

// Supported reports whether there is such a function for this machine.
func Supported() bool { return len(code) > 0 }

// Start starts a command whose clock is off by so much from its first instruction on.
func Start(cmd *exec.Cmd, by time.Duration) (*Clock, error) {
	// A process that is traced stops before its first instruction. Its tracer is a thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Ptrace = true
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c, err := stopped(cmd.Process.Pid, by)
	if err == nil {
		err = syscall.PtraceDetach(cmd.Process.Pid)
	}
	if err != nil {
		err = fmt.Errorf("setting the clock of a process: %w", err)
		return nil, errors.Join(err, cmd.Process.Kill())
	}
	return c, nil
}

// stopped waits for the process to stop, and sets its clock.
func stopped(pid int, by time.Duration) (*Clock, error) {
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil {
		return nil, err
	}
	if !status.Stopped() {
		return nil, fmt.Errorf("it has not stopped: %#x", status)
	}
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	from, to, err := vdso(proc)
	if err != nil {
		return nil, err
	}
	c := &Clock{memory: filepath.Join(proc, "mem")}
	image := make([]byte, to-from)
	if err := c.access(func(f *os.File) error { _, err := f.ReadAt(image, from); return err }); err != nil {
		return nil, err
	}
	at, size, err := function(image)
	if err != nil {
		return nil, err
	}
	// The offset comes behind the code, at its own size's alignment, so that it changes at once.
	place := (at + int64(len(code)) + 7) &^ 7
	if place+8 > at+size {
		return nil, fmt.Errorf("%s has only %d bytes", symbol, size)
	}
	c.offset = from + place
	if err := c.Set(by); err != nil {
		return nil, err
	}
	return c, c.access(func(f *os.File) error { _, err := f.WriteAt(codeFor(int32(place-at)), from+at); return err })
}

// Set sets the clock: it is off by so much from now on, in whole seconds.
func (c *Clock) Set(by time.Duration) error {
	raw := binary.NativeEndian.AppendUint64(nil, uint64(int64(by/time.Second)))
	return c.access(func(f *os.File) error { _, err := f.WriteAt(raw, c.offset); return err })
}

func (c *Clock) access(do func(*os.File) error) error {
	f, err := os.OpenFile(c.memory, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(do(f), f.Close())
}

// vdso returns where the kernel's functions are in a process.
func vdso(proc string) (from, to int64, err error) {
	maps, err := os.ReadFile(filepath.Join(proc, "maps"))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(maps)) {
		if strings.HasSuffix(strings.TrimSpace(line), "[vdso]") {
			_, err := fmt.Sscanf(line, "%x-%x ", &from, &to)
			return from, to, err
		}
	}
	return 0, 0, errors.New("it has no vDSO")
}

// function returns where the function that reads clocks is in the image of the vDSO, and its size.
func function(image []byte) (at, size int64, err error) {
	f, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return 0, 0, err
	}
	symbols, err := f.DynamicSymbols()
	if err != nil {
		return 0, 0, err
	}
	for _, s := range symbols {
		if s.Name == symbol {
			return int64(s.Value), int64(s.Size), nil
		}
	}
	return 0, 0, fmt.Errorf("its vDSO has no %s", symbol)
}
