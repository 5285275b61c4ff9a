// Package process tells a process from a later one with the same number.
package process

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Identity names one process of one boot. Its fields are stable: files hold it.
type Identity struct {
	PID int `json:"pid"`
	// BootID is the content of /proc/sys/kernel/random/boot_id, and Start field 22 of /proc/PID/stat: when the process started, in clock
	// ticks since that boot. Both are empty where /proc says neither.
	BootID string `json:"bootID,omitempty"`
	Start  uint64 `json:"processStart,omitempty"`
}

// Self is the identity of this process.
func Self() Identity {
	pid := os.Getpid()
	id := Identity{PID: pid}
	boot, err := bootID()
	if err != nil {
		return id
	}
	if start, err := started(pid); err == nil {
		id.BootID, id.Start = boot, start
	}
	return id
}

// Runs reports whether the process still runs. Of an identity that is a number alone, any process with that number counts.
func (i Identity) Runs() bool {
	if i.PID <= 0 {
		return false
	}
	if i.BootID == "" {
		_, err := os.Stat(fmt.Sprintf("/proc/%d", i.PID))
		return err == nil
	}
	if boot, err := bootID(); err != nil || boot != i.BootID {
		return false
	}
	start, err := started(i.PID)
	return err == nil && start == i.Start
}

func bootID() (string, error) {
	raw, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(raw)), err
}

// started returns when a process started, in clock ticks since the boot.
func started(pid int) (uint64, error) {
	path := fmt.Sprintf("/proc/%d/stat", pid)
	raw, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	// The second field is the program's name in parentheses, and may hold spaces and parentheses.
	fields := bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+1:])
	const field = 22 - 3 // the first of these is the third
	if len(fields) <= field {
		return 0, fmt.Errorf("%s has no field 22", path)
	}
	return strconv.ParseUint(string(fields[field]), 10, 64)
}
