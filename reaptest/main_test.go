package reaptest_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/reap-dev/reap/reaptest"
)

// asParent makes the test binary start a server on the directory that it names, say so, and wait to be
// killed.
const asParent = "REAPTEST_AS_PARENT"

func TestMain(m *testing.M) {
	if dir := os.Getenv(asParent); dir != "" {
		if _, err := reaptest.Run(context.Background(), reaptest.WithDir(dir)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println("ready")
		select {}
	}
	os.Exit(m.Run())
}
