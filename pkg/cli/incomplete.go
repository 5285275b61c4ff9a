package cli

import (
	"context"
	"fmt"
	"io"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/reap-dev/reap/pkg/gc/report"
)

// incomplete is the error of a report that has been printed and could not look at everything; nil for a complete one. A script
// must not take an empty answer for an all-clear.
func incomplete(b report.Basis) error {
	if len(b.Incomplete) == 0 {
		return nil
	}
	err := fmt.Errorf("the answer is incomplete: %s: %s", b.Incomplete[0].What, oneLine(fmt.Errorf("%s", b.Incomplete[0].Why)))
	if more := len(b.Incomplete) - 1; more > 0 {
		err = fmt.Errorf("%w; and %d more that could not be looked at", err, more)
	}
	return &runError{err: err, code: exitIncomplete, print: func(stderr io.Writer) { printError(stderr, err) }}
}

// checkNamespace adds to a report in which no object of a namespace was seen that there is no such namespace, if that is so:
// nothing is wrong with a name that is spelled wrong either.
func (c *connection) checkNamespace(ctx context.Context, namespace string, seen int, b *report.Basis) error {
	if namespace == "" || seen > 0 {
		return nil
	}
	client, err := typedcorev1.NewForConfig(c.config)
	if err != nil {
		return err
	}
	_, err = client.Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	why := err.Error()
	if apierrors.IsNotFound(err) {
		why = "there is no such namespace"
	}
	b.Incomplete = append(slices.Clip(b.Incomplete), report.Gap{What: "namespace " + namespace, Why: why})
	return nil
}
