package reaptest_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reap-dev/reap/reaptest"
)

// asFailure makes TestThatFails fail.
const asFailure = "REAPTEST_AS_FAILURE"

// deleted creates an object that a finalizer holds, and deletes it.
func (c client) deleted(t *testing.T, name string) *corev1.ConfigMap {
	t.Helper()
	held := configMap(name)
	held.Finalizers = []string{"example.com/holds-" + name}
	held, err := c.CoreV1().ConfigMaps("default").Create(t.Context(), held, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.CoreV1().ConfigMaps("default").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	return held
}

// hurried is a test whose time is short.
type hurried struct {
	testing.TB
	ctx context.Context
}

func (h hurried) Context() context.Context { return h.ctx }

// TestThatFails is run by TestOutputOfFailedTests, in another process.
func TestThatFails(t *testing.T) {
	if os.Getenv(asFailure) == "" {
		return
	}
	s, err := reaptest.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop() }) // other tests see what it returns
	c := clientOf(t, s)
	t.Run("Passes", func(t *testing.T) {
		s.Explain(t)
		c.deleted(t, "early")
	})
	t.Run("Gone", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		s.Gone(hurried{t, ctx}, c.deleted(t, "late"))
	})
	t.Run("Many", func(t *testing.T) {
		s.Reset(t)
		for i := range 12 {
			c.deleted(t, fmt.Sprintf("many-%02d", i))
		}
		t.Error("failed on purpose")
	})
	t.Run("Started", func(t *testing.T) {
		clientOf(t, reaptest.Start(t)).deleted(t, "alone")
		t.Error("failed on purpose")
	})
}

// A failed test's output says what is left, why, and what the server has logged.
func TestOutputOfFailedTests(t *testing.T) {
	t.Parallel()
	test := exec.Command(os.Args[0], "-test.run=^TestThatFails$")
	test.Env = append(os.Environ(), asFailure+"=1")
	raw, err := test.CombinedOutput()
	if test.ProcessState.ExitCode() != 1 {
		t.Fatalf("the test that fails ended with %v:\n%s", err, raw)
	}
	_, rest, _ := strings.Cut(string(raw), "--- FAIL: TestThatFails/Gone")
	gone, rest, _ := strings.Cut(rest, "--- FAIL: TestThatFails/Many")
	many, started, found := strings.Cut(rest, "--- FAIL: TestThatFails/Started")
	if !found {
		t.Fatalf("these tests did not fail in this order:\n%s", raw)
	}
	// Only reap why names the finalizer.
	for _, c := range []struct {
		in, want string
		times    int
	}{
		{gone, "waiting for configmaps/late in namespace default to go", 1},
		{gone, "finalizers  example.com/holds-late", 1},
		{gone, "finalizers  example.com/holds-early", 1},
		{gone, "the server's log:", 1},
		{many, "still being deleted", 1},
		{many, "finalizers  example.com/holds-many-", 10},
		{many, "and 2 more are being deleted", 1},
		{many, "the server's log:", 1},
		{started, "finalizers  example.com/holds-alone", 1},
		{started, "reap is ready", 1},
	} {
		if n := strings.Count(c.in, c.want); n != c.times {
			t.Errorf("%q is there %d times, not %d:\n%s", c.want, n, c.times, c.in)
		}
	}
	if strings.Contains(string(raw), "TestThatFails/Passes") {
		t.Errorf("a test that passes says something:\n%s", raw)
	}
}
