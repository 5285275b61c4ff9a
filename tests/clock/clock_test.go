package clock

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"
)

const tells = "REAP_TEST_TELLS_THE_TIME"

func TestMain(m *testing.M) {
	if os.Getenv(tells) == "" {
		os.Exit(m.Run())
	}
	began := time.Now()
	for lines := bufio.NewScanner(os.Stdin); ; {
		fmt.Println(time.Now().Unix(), time.Since(began).Nanoseconds())
		if !lines.Scan() {
			os.Exit(0)
		}
	}
}

// TestClockOfOneProcessIsSet: from its start and while it runs, and elapsed time is what it was.
func TestClockOfOneProcessIsSet(t *testing.T) {
	if !Supported() {
		t.Skip("the clock of a process can be set on amd64 alone")
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), tells+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	const year = 365 * 24 * time.Hour
	c, err := Start(cmd, -50*year)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for _, by := range []time.Duration{-50 * year, 0, 2 * year, -2 * year} {
		if err := c.Set(by); err != nil {
			t.Fatal(err)
		}
		if by != -50*year {
			if _, err := in.Write([]byte("\n")); err != nil {
				t.Fatal(err)
			}
		}
		var shown, elapsed int64
		if _, err := fmt.Fscan(out, &shown, &elapsed); err != nil {
			t.Fatal(err)
		}
		if off := time.Until(time.Unix(shown, 0)) - by; off < -time.Minute || off > time.Minute {
			t.Errorf("a clock that is off by %s shows %s", by, time.Unix(shown, 0))
		}
		if e := time.Duration(elapsed); e < 0 || e > time.Since(began)+time.Second {
			t.Errorf("%s have elapsed", e)
		}
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
}
