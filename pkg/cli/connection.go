package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

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

// report asks the collector for a report: a path below report.Root, with its query.
func (c *connection) report(ctx context.Context, name string, query map[string]string, into any) error {
	d, err := discovery.NewDiscoveryClientForConfig(c.config)
	if err != nil {
		return err
	}
	r := d.RESTClient().Get().AbsPath(report.Root + name)
	for k, v := range query {
		r.Param(k, v)
	}
	var code int
	raw, err := r.Do(ctx).StatusCode(&code).Raw()
	var problem report.Problem
	switch {
	case code == http.StatusOK && err == nil:
		if err := json.Unmarshal(raw, into); err != nil {
			return fmt.Errorf("the server's answer is no report (%w): is it another version of reap?", err)
		}
		return nil
	case code != 0 && json.Unmarshal(raw, &problem) == nil && problem.Error != "":
		return fmt.Errorf("%s", problem.Error)
	case code == http.StatusNotFound:
		return fmt.Errorf("the server at %s (from %s) has no collector of reap: name a reap server with --kubeconfig or --data-dir", c.config.Host, c.source)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w; a ClusterRole with the verb get on the nonResourceURLs %s* allows it", err, report.Root)
	}
	return c.failed(err)
}

// failed adds to an error of a call which server it was.
func (c *connection) failed(err error) error {
	return fmt.Errorf("asking the server at %s (from %s): %w", c.config.Host, c.source, err)
}
