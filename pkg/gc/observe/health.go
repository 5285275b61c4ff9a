package observe

import (
	"context"
	"errors"
	"fmt"
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
	now func() time.Time
	// began is called when the resource begins to fail.
	began func()
	// readable is told whether the resource can be listed and watched, in order.
	readable func(bool)

	// mu protects what follows.
	mu    sync.Mutex
	err   error     // why the resource cannot be listed or watched; nil if it can
	since time.Time // when that began
	// stalled is true if err is only that nothing has come for too long.
	stalled bool
	// waiting is since when there is no watch and no page of a list has come that was not
	// read before; the zero time while the resource is watched.
	waiting time.Time
	// last is what ended the last list or watch in the ordinary course; nil if nothing did
	// since the resource was last watched.
	last error
	// tolerated is true if the last try failed and that was ignored.
	tolerated bool
	// retired is true once the resource is not served any more: what fails then is
	// only the rest of it.
	retired bool
}

// stallAfter is how long a resource may be neither watched nor come further with its list.
const stallAfter = 2 * time.Minute

// failed notes that a list or watch was refused. It is logged when that begins, not
// at every retry. That a watch ends, or that its version has been compacted, is the
// ordinary course, unless nothing else comes for long: see check.
//
// tolerateFirst ignores the first such failure in a row: the answer may only be ahead of
// discovery, or a watch could not be renewed at once. ignored reports that it did.
func (h *health) failed(ctx context.Context, err error, tolerateFirst bool) (ignored bool) {
	if ctx.Err() != nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting.IsZero() {
		h.waiting = h.now()
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		h.last = err
		return false
	}
	if h.retired {
		return false
	}
	if h.err == nil && tolerateFirst && !h.tolerated {
		h.tolerated = true
		return true
	}
	h.fail(err)
	h.stalled = false
	return false
}

// fail notes why the resource cannot be listed or watched. h.mu is held.
func (h *health) fail(err error) {
	if h.err == nil {
		h.since = h.now()
		h.log.WithError(err).Warn("cannot list or watch a resource; its objects are neither collected nor taken for absent")
		h.began()
		h.readable(false)
	}
	h.err = err
}

// check notes that the resource cannot be listed if nothing has come for too long: each
// try may end in the ordinary course, and none of them well.
func (h *health) check() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.retired || h.err != nil || h.waiting.IsZero() || h.now().Sub(h.waiting) < stallAfter {
		return
	}
	err := fmt.Errorf("nothing more of its list has come for %s", stallAfter)
	if h.last != nil {
		err = fmt.Errorf("%w; the last try ended: %w", err, h.last)
	}
	h.fail(err)
	h.stalled = true
}

// progressed notes that a page of a list has come that was not read before.
func (h *health) progressed() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting = h.now()
	if h.stalled {
		h.recover()
	}
}

// announced repeats what readable was last told: the resource has just been announced.
func (h *health) announced() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.readable(h.err == nil)
}

// works notes that the resource was listed and is watched.
func (h *health) works() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tolerated, h.waiting, h.last = false, time.Time{}, nil
	if h.err != nil {
		h.recover()
	}
}

// recover notes that the resource can be listed again. h.mu is held.
func (h *health) recover() {
	h.err, h.stalled = nil, false
	h.readable(true)
	h.log.WithField("failed_for", h.now().Sub(h.since).Round(time.Second).String()).Info("a resource that could not be listed or watched works again")
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
