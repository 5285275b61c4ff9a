package reaptest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// process is a server's process and all there is to know of its end.
type process struct {
	cmd   *exec.Cmd
	log   *tail
	ended chan struct{} // closed when it has ended and its log is complete
}

// launch starts the command.
func launch(cmd *exec.Cmd, log *tail) (*process, error) {
	// Something that the process leaves behind may keep its output open.
	cmd.WaitDelay = 5 * time.Second
	p := &process{cmd: cmd, log: log, ended: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// Linux ends the child with the thread that started it, not with the process: a thread of its own
		// that waits for it. The caller's may end at any time, if the caller has locked it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.ended)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // its state says all of it
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// terminate asks the process to end, and kills it if it takes longer than within.
func (p *process) terminate(within time.Duration) error {
	select {
	case <-p.ended:
		return fmt.Errorf("the server ended by itself: %s", p.cmd.ProcessState)
	default:
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.kill()
		return fmt.Errorf("asking the server to stop: %w; it was killed", err)
	}
	select {
	case <-p.ended:
	case <-time.After(within):
		p.kill()
		return fmt.Errorf("the server was still running %s after SIGTERM; it was killed", within)
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("the server ended with %s after SIGTERM", p.cmd.ProcessState)
	}
	return nil
}

// kill ends the process without giving it a chance, if it still runs.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // may have ended
	<-p.ended
}
