package controllers

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/component-base/metrics/legacyregistry"
)

// TestControllerBeginsWithTheFirstObject has a request that is so old that the cleaner, once it runs, deletes it.
func TestControllerBeginsWithTheFirstObject(t *testing.T) {
	before := runtime.NumGoroutine()
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, errors.New("nothing was deleted"))
	defer cancel()
	w := &world{answer: func(_ context.Context, resource string) *http.Response {
		if resource == "stale" {
			cancel()
		}
		return nil
	}}
	w.lists = map[string]string{"certificatesigningrequests": `{"metadata":{"name":"stale","resourceVersion":"1","uid":"u",` +
		`"creationTimestamp":"2020-01-01T00:00:00Z"},"spec":{"signerName":"example.com/none"}}`}
	if err := Run(ctx, w.options(patience, "csrcleaner"), func() {}); err != nil {
		t.Error(err)
	}
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	mustLeaveNothing(t, before)
}

// TestControllerThatCannotBeginIsTriedAgain: there is no key to sign tokens with.
func TestControllerThatCannotBeginIsTriedAgain(t *testing.T) {
	before := runtime.NumGoroutine()
	w := &world{lists: map[string]string{"secrets": `{"metadata":{"name":"robot","namespace":"default","resourceVersion":"1","uid":"u"},` +
		`"type":"kubernetes.io/service-account-token"}`}}
	o := w.options(patience, "serviceaccount-token")
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, errors.New("it was not tried twice"))
	defer cancel()
	var failed []Failure
	var series float64
	o.Log.Logger.AddHook(&counted{t: t, controller: "serviceaccount-token", left: 2, done: func() {
		failed, series = o.Failures.All(), failingSeries(t, "serviceaccount-token")
		cancel()
	}})
	if err := Run(ctx, o, func() {}); err != nil {
		t.Error(err)
	}
	if len(failed) != 1 || failed[0].Controller != "serviceaccount-token" || failed[0].Attempts != 2 || time.Since(failed[0].Since) < time.Second ||
		failed[0].Err == nil || !strings.Contains(failed[0].Err.Error(), "reading the key that signs tokens") || series != 1 {
		t.Errorf("while it cannot start: %+v, series %v", failed, series)
	}
	if left := o.Failures.All(); len(left) != 0 || failingSeries(t, "serviceaccount-token") != 0 {
		t.Errorf("after the end: %+v", left)
	}
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	mustLeaveNothing(t, before)
}

// failingSeries returns the value of a controller's reap_controller_failing, or -1 if there is none.
func failingSeries(t *testing.T, controller string) float64 {
	t.Helper()
	all, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Error(err)
	}
	for _, f := range all {
		for _, m := range f.GetMetric() {
			if f.GetName() == "reap_controller_failing" && m.GetLabel()[0].GetValue() == controller {
				return m.GetGauge().GetValue()
			}
		}
	}
	return -1
}

func TestControllerThatCannotStartBacksOff(t *testing.T) {
	next := retry.DelayFunc()
	var seconds []int
	for range 9 {
		seconds = append(seconds, int(next().Seconds()))
	}
	if want := []int{1, 2, 4, 8, 16, 32, 60, 60, 60}; !slices.Equal(seconds, want) {
		t.Errorf("it waits %v, want %v", seconds, want)
	}
}

// counted calls done at the nth warning.
type counted struct {
	t          *testing.T
	controller string
	left       int
	done       func()
}

func (*counted) Levels() []logrus.Level { return []logrus.Level{logrus.WarnLevel} }

func (c *counted) Fire(e *logrus.Entry) error {
	if got := e.Data["controller"]; got != c.controller {
		c.t.Errorf("the warning is about %v", got)
	}
	if c.left--; c.left == 0 {
		c.done()
	}
	return nil
}
