package observe

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/sirupsen/logrus"
)

// health is whether a resource can be listed and watched. It belongs to the
// resource and not to one monitor: a monitor that replaces another goes on with it,
// so that a resource that stays broken is reported once.
type health struct {
	log *logrus.Entry // names the resource
	// began is called when the resource begins to fail.
	began func()
	// readable is told whether the resource can be listed and watched, in order.
	readable func(bool)

	// mu protects what follows.
	mu    sync.Mutex
	err   error     // why the resource cannot be listed or watched; nil if it can
	since time.Time // when that began
	// missed is true if the last try failed and that was ignored.
	missed bool
	// retired is true once the resource is not served any more: what fails then is
	// only the rest of it.
	retired bool
}

// failed notes that a list or watch was refused. It is logged when that begins, not
// at every retry. That a watch ends, or that its version has been compacted, is the
// ordinary course.
//
// tolerateFirst ignores the first such failure in a row: the answer may only be ahead of
// discovery, or a watch could not be renewed at once. ignored reports that it did.
func (h *health) failed(ctx context.Context, err error, tolerateFirst bool) (ignored bool) {
	if ctx.Err() != nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.retired {
		return false
	}
	if h.err == nil {
		if tolerateFirst && !h.missed {
			h.missed = true
			return true
		}
		h.since = time.Now()
		h.log.WithError(err).Warn("cannot list or watch a resource; its objects are neither collected nor taken for absent")
		h.began()
		h.readable(false)
	}
	h.err = err
	return false
}

// tell repeats what readable was last told: the resource has just been announced.
func (h *health) tell() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.readable(h.err == nil)
}

// works notes that the resource was listed and is watched.
func (h *health) works() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.missed = false
	if h.err != nil {
		h.err = nil
		h.readable(true)
		h.log.WithField("failed_for", time.Since(h.since).Round(time.Second).String()).Info("a resource that could not be listed or watched works again")
	}
}

// retire notes that the resource is not served any more.
func (h *health) retire() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.retired = true
	if h.err != nil {
		h.err = nil
		h.log.Info("a resource that could not be listed or watched is no longer served")
	}
}

// failing returns why the resource cannot be listed or watched, and since when; nil
// if it can.
func (h *health) failing() (since time.Time, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.since, h.err
}
