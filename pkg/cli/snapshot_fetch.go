package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/schollz/progressbar/v3"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/reap-dev/reap/pkg/datastore/dump"
	"github.com/reap-dev/reap/pkg/gc/report"
	"github.com/reap-dev/reap/pkg/snapshot"
)

// snapshot asks the server for a snapshot and copies it to out as it comes. Without an error it is whole.
func (c *connection) snapshot(ctx context.Context, out io.Writer, withPKI bool, progress func(done, all int64)) (m snapshot.Manifest, err error) {
	d, err := discovery.NewDiscoveryClientForConfig(c.config)
	if err != nil {
		return m, err
	}
	r := d.RESTClient().Post().AbsPath(snapshot.Path)
	if !withPKI {
		r.Param(snapshot.QueryPKI, snapshot.WithoutPKI)
	}
	// Not the client's own way: it would wait for the end, and end after a while.
	client, err := rest.HTTPClientFor(c.config)
	if err != nil {
		return m, err
	}
	client.Timeout = 0
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL().String(), nil)
	if err != nil {
		return m, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return m, c.failed(err)
	}
	defer func() { _ = resp.Body.Close() }() // only read
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != snapshot.ContentType {
		return m, c.refused(resp)
	}
	var all, done int64
	in := io.TeeReader(resp.Body, out)
	m, err = snapshot.Read(in, snapshot.Visitor{
		Begin: func(m snapshot.Manifest) error { all = m.Keys; return nil },
		Key:   func(dump.Record) error { done++; progress(done, all); return nil },
	})
	if err != nil {
		return m, fmt.Errorf("the server at %s broke off: %w; its log says why", c.config.Host, err)
	}
	return m, nil
}

// refused makes an error of an answer that is no snapshot.
func (c *connection) refused(resp *http.Response) error {
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // what there is helps
	var problem report.Problem
	if json.Unmarshal(raw, &problem) == nil && problem.Error != "" && resp.StatusCode != http.StatusNotFound {
		return errors.New(problem.Error)
	}
	switch resp.StatusCode {
	case http.StatusForbidden:
		return fmt.Errorf("you may not make a snapshot of the server at %s (from %s): a ClusterRole with the verb post on the nonResourceURL %s allows it, and with it everything that the server knows", c.config.Host, c.source, snapshot.Path)
	case http.StatusNotFound, http.StatusOK, http.StatusMethodNotAllowed:
		return fmt.Errorf("the server at %s (from %s) makes no snapshots: name a reap server with --kubeconfig or --data-dir", c.config.Host, c.source)
	}
	return c.failed(errors.New(resp.Status))
}

// keyBar shows how many keys have come.
type keyBar struct{ bar *progressbar.ProgressBar }

func newKeyBar(out io.Writer, description string) keyBar {
	return keyBar{newBar(out, description, "keys")}
}

// drawEvery is after how many keys the bar is looked at again.
const drawEvery = 100

func (b keyBar) show(done, all int64) {
	if done%drawEvery == 1 {
		b.bar.ChangeMax64(all + 1) // a bar that has reached its end is not drawn again
		_ = b.bar.Set64(done)
	}
}

// done takes the bar off the terminal.
func (b keyBar) done() { _ = b.bar.Finish() }
