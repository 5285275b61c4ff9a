package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/reap-dev/reap/pkg/gc/report"
)

// connection is the server that a command talks to.
type connection struct {
	config *rest.Config
	// source says where it was found, for people.
	source string
	// namespace is the one to look in unless --namespace names another.
	namespace string
}

// unanswered is the error of a question that the running collector cannot answer, and a
// listing can.
type unanswered struct {
	err error
	// note says why the collector was not asked, before the report.
	note string
	// forbidden is true if the caller may not ask: there may be a collector.
	forbidden bool
}

func (e *unanswered) Error() string { return e.err.Error() }
func (e *unanswered) Unwrap() error { return e.err }

// report asks the collector for a report: a path below report.Root, with its query. An error
// may be unanswered.
func (c *connection) report(ctx context.Context, name string, query url.Values, into any) error {
	d, err := discovery.NewDiscoveryClientForConfig(c.config)
	if err != nil {
		return err
	}
	r := d.RESTClient().Get().AbsPath(report.Root + name)
	for k, values := range query {
		for _, v := range values {
			r.Param(k, v)
		}
	}
	var code int
	raw, err := r.Do(ctx).StatusCode(&code).Raw()
	var problem report.Problem
	_ = json.Unmarshal(raw, &problem) // what is none has no error
	switch {
	case code == http.StatusOK && err == nil:
		if err := json.Unmarshal(raw, into); err != nil {
			return fmt.Errorf("the server's answer is no report (%w): is it another version of reap?", err)
		}
		return nil
	case code == http.StatusServiceUnavailable && problem.Error != "":
		return &unanswered{err: errors.New(problem.Error), note: "the collector of reap does not run there: " + problem.Error}
	case code != 0 && problem.Error != "":
		return errors.New(problem.Error)
	case code == http.StatusNotFound:
		return &unanswered{
			err:  fmt.Errorf("the server at %s (from %s) has no collector of reap: name a reap server with --kubeconfig or --data-dir", c.config.Host, c.source),
			note: "no collector of reap answers at " + c.config.Host,
		}
	case apierrors.IsForbidden(err):
		const remedy = "a ClusterRole with the verb get on the nonResourceURLs " + report.Root + "* allows it"
		return &unanswered{err: fmt.Errorf("%w; %s", err, remedy), note: "you may not ask the collector itself (" + remedy + ")", forbidden: true}
	}
	return c.failed(err)
}

// failed adds to an error of a call which server it was.
func (c *connection) failed(err error) error {
	return fmt.Errorf("asking the server at %s (from %s): %w", c.config.Host, c.source, err)
}
