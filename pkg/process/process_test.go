package process

import (
	"os"
	"os/exec"
	"testing"
)

// TestANumberAloneIsNoProcess: what a killed process has left names nothing that got its number later.
func TestANumberAloneIsNoProcess(t *testing.T) {
	self := Self()
	if self.PID != os.Getpid() || self.BootID == "" || self.Start == 0 || !self.Runs() {
		t.Fatalf("this process is %+v", self)
	}
	cmd := exec.Command("cat") // which waits for its input
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	start, err := started(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	child := Identity{cmd.Process.Pid, self.BootID, start}
	if !child.Runs() {
		t.Errorf("%+v does not run", child)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	for name, id := range map[string]Identity{
		"ended": child, "of another start": {self.PID, self.BootID, self.Start + 1}, "of another boot": {self.PID, "x", self.Start},
		"ended, and a number alone": {PID: child.PID}, "none": {},
	} {
		if id.Runs() {
			t.Errorf("one that has %s runs: %+v", name, id)
		}
	}
	if !(Identity{PID: self.PID}).Runs() {
		t.Error("a number alone does not run")
	}
}
