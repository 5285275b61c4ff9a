package clients

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// stopWithin bounds how long a program may take to end after SIGTERM.
const stopWithin = 30 * time.Second

// process is a program that runs beside a test.
type process struct {
	name  string
	cmd   *exec.Cmd
	log   string // the file with what it writes
	ended chan error
}

// launch starts a program, which is killed if the tests are. Its log is a file in dir.
func launch(dir, name string, args ...string) (*process, error) {
	log, err := os.CreateTemp(dir, name+"-*.log")
	if err != nil {
		return nil, err
	}
	defer log.Close() // the program has its own
	p := &process{name: name, log: log.Name(), ended: make(chan error, 1)}
	p.cmd = exec.Command(filepath.Join(bin, name), args...)
	p.cmd.Env = append(os.Environ(), "HOME="+dir) // kwok and Helm read and write files there
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() { p.ended <- p.cmd.Wait() }()
	return p, nil
}

// stop ends the program, and returns an error if it had ended before. Further calls do nothing.
func (p *process) stop() error {
	if p.cmd == nil {
		return nil
	}
	cmd := p.cmd
	p.cmd = nil
	select {
	case err := <-p.ended:
		return fmt.Errorf("%s has ended by itself: %v; its log ends with\n%s", p.name, err, p.tail())
	default:
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.ended: // kwok and the scheduler report the signal as a failure
		return nil
	case <-time.After(stopWithin):
		_ = cmd.Process.Kill() // it is waited for below
		<-p.ended
		return fmt.Errorf("%s has not ended within %s of SIGTERM", p.name, stopWithin)
	}
}

// tail returns the end of the log.
func (p *process) tail() string { return tail(p.log) }

// tail returns the last lines of a file.
func tail(path string) string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.SplitAfter(string(raw), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "")
}
