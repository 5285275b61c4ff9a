package reaptest_test

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/reap-dev/reap/reaptest"
)

// A server ends with the process that started it, also if that is killed.
func TestServerEndsWithItsParent(t *testing.T) {
	dir := t.TempDir()
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), asParent+"="+dir)
	parent.Stderr = t.Output()
	parent.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = parent.Process.Kill() // has ended, unless the test failed
		_ = parent.Wait()         // killed
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the parent said %q (%v)", line, err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "ready.json"))
	if err != nil {
		t.Fatal(err)
	}
	var ready struct{ PID int }
	if err := json.Unmarshal(raw, &ready); err != nil {
		t.Fatal(err)
	}
	server, err := os.FindProcess(ready.PID)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Kill() }) // has ended, unless the test failed

	// The kernel gives the lock back when the process has ended, and not before: who has it knows.
	lock, err := os.Open(filepath.Join(dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lock.Close() }) // only read
	free := func() bool { return syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil }
	if free() {
		t.Fatal("the server does not hold its lock")
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	awaitIn(t, "the server's end", func() (bool, any) { return free(), nil })
}

// The bond is one to a thread. The caller's may end.
func TestServerOutlivesTheThreadThatAskedForIt(t *testing.T) {
	type result struct {
		s   *reaptest.Server
		err error
		tid int
	}
	started, ended := make(chan result), make(chan struct{})
	defer close(ended)
	var start func()
	start = func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		if syscall.Gettid() == os.Getpid() {
			// The first thread never ends. While it is taken, another goroutine has another.
			go start()
			<-ended
			return
		}
		s, err := reaptest.Run(t.Context())
		started <- result{s: s, err: err, tid: syscall.Gettid()}
	}
	go start()
	r := <-started
	if r.err != nil {
		t.Fatal(r.err)
	}
	t.Cleanup(func() {
		if err := r.s.Stop(); err != nil {
			t.Error(err)
		}
	})
	awaitIn(t, "the thread's end", func() (bool, any) {
		err := syscall.Tgkill(os.Getpid(), r.tid, 0)
		return err == syscall.ESRCH, err
	})
	clientOf(t, r.s).mustServe(t)
}
