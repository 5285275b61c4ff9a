package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/server"
)

const healthcheckDescription = `Exits with 0 if the reap server of a data directory on this machine is ready. Otherwise it says why in one line and exits with 1. The image's HEALTHCHECK runs it.

It asks the server that has written DIR/ready.json for its /readyz, whatever $KUBECONFIG says. Only the user that the server runs as can read this file. A server that was killed leaves it, and does not answer.

With --wait it asks again until the server is ready or the time is over, as a script does that has just started the server.`

const healthcheckExamples = `reap healthcheck
reap healthcheck --wait 2m
reap healthcheck --data-dir /srv/reap --timeout 1s
docker exec reap reap healthcheck -o json`

// healthcheckTimeout leaves a slow device time for starting this program within the image's ten seconds.
const healthcheckTimeout = 5 * time.Second

func healthcheckCommand() *cli.Command {
	flags, findDataDir := config.DataDirFlags(installedServices)
	return command(healthcheckExamples, &cli.Command{
		Name:        "healthcheck",
		Usage:       "exit with 0 if the server on this machine is ready",
		UsageText:   "reap healthcheck [flags]",
		Description: healthcheckDescription,
		Flags: append(flags, outputFlag(), &cli.DurationFlag{
			Name: "timeout", Category: "Check", Value: healthcheckTimeout,
			Usage: "`DURATION` how long the server may take to answer",
		}, &cli.DurationFlag{
			Name: "wait", Category: "Check", DefaultText: "0: ask once",
			Usage: "`DURATION` how long to wait for a server that is not ready",
		}),
		Action: func(c *cli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			format, err := checkOutput(c)
			if err != nil {
				return err
			}
			timeout := c.Duration("timeout")
			if timeout <= 0 {
				return fmt.Errorf("--timeout: %s is no time to answer in: give a duration such as %s", timeout, healthcheckTimeout)
			}
			wait := c.Duration("wait")
			if wait < 0 {
				return fmt.Errorf("--wait: %s is no time to wait: give a duration such as 2m", wait)
			}
			dir, err := findDataDir()
			if err != nil {
				return err
			}
			if dir == "" {
				return errors.New("there is no home directory to look for a server in: name its data directory with --data-dir")
			}
			h, asking := awaitHealth(c.Context, dir, timeout, wait)
			if asking != nil && format == "text" {
				return failed(fmt.Errorf("not ready: %w", asking))
			}
			if asking != nil {
				h.Reason = oneLine(asking)
			}
			return failed(errors.Join(print(c.App.Writer, format, h), asking))
		},
	})
}

// health is what reap healthcheck has found. Its fields are stable.
type health struct {
	Ready bool `json:"ready"`
	// Reason says why it is not ready.
	Reason string `json:"reason,omitempty"`
	// URL, PID and Version are those of the server that has said that it is ready.
	URL     string `json:"url,omitempty"`
	PID     int    `json:"pid,omitempty"`
	Version string `json:"version,omitempty"`
}

// Print writes it for people.
func (h health) Print(out io.Writer) error {
	_, err := fmt.Fprintf(out, "ready: %s\n", h.URL)
	return err
}

// askAgainEvery is the time between two questions of a server that is waited for.
const askAgainEvery = 200 * time.Millisecond

// awaitHealth asks the server on a data directory until it is ready or the wait is over; the last error says why it is not.
func awaitHealth(ctx context.Context, dir string, timeout, wait time.Duration) (h health, err error) {
	end := time.Now().Add(wait)
	for {
		asking, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %s", timeout))
		h, err = checkHealth(asking, dir)
		cancel()
		if err == nil || ctx.Err() != nil || !time.Now().Before(end) {
			return h, err
		}
		select {
		case <-time.After(min(askAgainEvery, time.Until(end))):
		case <-ctx.Done():
			return h, err
		}
	}
}

// checkHealth asks the server on a data directory whether it is ready; the error says why it is not.
func checkHealth(ctx context.Context, dir string) (h health, err error) {
	r, err := server.ReadReady(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return h, fmt.Errorf("no server on %s has said that it is ready", dir)
	}
	if err != nil {
		return h, err
	}
	h.URL, h.PID, h.Version = r.URL, r.PID, r.Version
	// The directory's own kubeconfig, not the path that the ready file names: that is the server's view,
	// and the directory may be mounted elsewhere here.
	c, err := clientcmd.BuildConfigFromFlags(r.URL, config.AdminKubeconfig(dir))
	if err != nil {
		return h, fmt.Errorf("reading the server's kubeconfig: %w", err)
	}
	// A proxy that containers are told of is for the world outside.
	c.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	if err := askReadyz(ctx, c); err != nil {
		return h, fmt.Errorf("asking the server at %s: %w", r.URL, err)
	}
	h.Ready = true
	return h, nil
}

// askReadyz returns nil if the server is ready.
func askReadyz(ctx context.Context, c *rest.Config) error {
	client, err := rest.HTTPClientFor(c)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Host+"/readyz", nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(req)
	var body []byte
	if err == nil {
		defer func() { _ = answer.Body.Close() }() // all that is of interest has been read
		body, err = io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	}
	var wrapped *url.Error
	switch {
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &wrapped):
		return wrapped.Err // the caller says whom it asked
	case err != nil:
		return err
	case answer.StatusCode == http.StatusOK:
		return nil
	}
	if checks := failingChecks(string(body)); len(checks) > 0 {
		return fmt.Errorf("these checks fail: %s", strings.Join(checks, ", "))
	}
	return fmt.Errorf("it answers %s", answer.Status)
}

// failingChecks names the checks that fail in an answer of /readyz, which has a line for each:
//
//	[+]ping ok
//	[-]etcd failed: reason withheld
func failingChecks(body string) []string {
	var names []string
	for line := range strings.Lines(body) {
		if rest, failing := strings.CutPrefix(line, "[-]"); failing {
			name, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
			names = append(names, name)
		}
	}
	return names
}
