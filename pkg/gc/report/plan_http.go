package report

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reap-dev/reap/pkg/gc/plan"
)

// Query is the request as the query of a URL.
func (q PlanRequest) Query() url.Values {
	v := url.Values{"limit": {strconv.Itoa(q.Limit)}}
	if q.Policy != "" {
		v.Set("policy", q.Policy)
	}
	for _, k := range q.Targets {
		v.Add("object", k.Resource.String()+"/"+string(k.UID))
	}
	return v
}

// planRequest reads what Query has written.
func planRequest(v url.Values) (q PlanRequest, err error) {
	if q.Limit, err = limitOf(v); err != nil {
		return q, err
	}
	switch q.Policy = v.Get("policy"); metav1.DeletionPropagation(q.Policy) {
	case "", metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan:
	default:
		return q, fmt.Errorf("policy=%q: give Background, Foreground or Orphan", q.Policy)
	}
	if q.Targets, err = keysOf(v); err != nil {
		return q, err
	}
	if len(q.Targets) == 0 {
		return q, errors.New("give at least one object=, as its resource and UID")
	}
	return q, nil
}

// ErrTooManyPlans refuses a plan while others wait.
var ErrTooManyPlans = errors.New("too many plans are being made at the moment; try again in a few seconds")

func foretell(w http.ResponseWriter, r *http.Request, c Collector) {
	q, err := planRequest(r.URL.Query())
	if err != nil {
		answer(w, http.StatusBadRequest, Problem{err.Error()})
		return
	}
	p, err := c.Plan(r.Context(), q)
	if err != nil {
		code := http.StatusNotFound
		switch {
		case errors.Is(err, ErrTooManyPlans):
			code = http.StatusTooManyRequests
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
			code = http.StatusGatewayTimeout
		case errors.Is(err, plan.ErrEndless):
			code = http.StatusInternalServerError
		}
		answer(w, code, Problem{err.Error()})
		return
	}
	answer(w, http.StatusOK, p)
}
