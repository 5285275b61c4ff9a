package controllers

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"testing"

	"github.com/sirupsen/logrus"
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
	o.Log.Logger.AddHook(&counted{t: t, left: 2, done: cancel})
	if err := Run(ctx, o, func() {}); err != nil {
		t.Error(err)
	}
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	mustLeaveNothing(t, before)
}

// counted calls done at the nth warning.
type counted struct {
	t    *testing.T
	left int
	done func()
}

func (*counted) Levels() []logrus.Level { return []logrus.Level{logrus.WarnLevel} }

func (c *counted) Fire(e *logrus.Entry) error {
	if got := e.Data["controller"]; got != "serviceaccount-token" {
		c.t.Errorf("the warning is about %v", got)
	}
	if c.left--; c.left == 0 {
		c.done()
	}
	return nil
}
