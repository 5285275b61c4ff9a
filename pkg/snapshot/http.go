package snapshot

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/reap-dev/reap/pkg/escape"
)

// Path is where a server serves snapshots.
const Path = "/reap/v1/snapshot"

// QueryPKI=WithoutPKI is the query that requests a snapshot without keys and certificates.
const (
	QueryPKI   = "pki"
	WithoutPKI = "false"
)

// ContentType is the media type of a snapshot.
const ContentType = "application/vnd.reap.snapshot"

// Handler serves a snapshot to each
//
//	POST /reap/v1/snapshot?pki=false
//
// It does not authorize callers: the server must, because a snapshot contains every secret. The method is POST, so that
// the right to GET the reports on neighbouring paths does not include snapshots.
//
// A client that takes nothing for a minute is given up: nobody else, the schedule included, gets a snapshot meanwhile.
type Handler struct {
	Maker *Maker
	Log   *logrus.Entry

	patience time.Duration // for tests; 0 is stalledAfter
}

const (
	// stalledAfter is how long the client may take over a piece.
	stalledAfter = time.Minute
	// pieceBytes is small enough for a slow line to take it in that time.
	pieceBytes = 16 << 10
)

// problem is the answer when there is no snapshot.
type problem struct {
	Error string `json:"error"`
}

// ServeHTTP implements http.Handler. If a snapshot fails after a part of it has been sent, ServeHTTP aborts the connection.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		refuse(w, http.StatusMethodNotAllowed, "request a snapshot with POST, or use 'reap snapshot save'")
		return
	}
	out := &begun{ResponseWriter: w, patience: cmp.Or(h.patience, stalledAfter)}
	m, err := h.Maker.Make(r.Context(), out, r.URL.Query().Get(QueryPKI) != WithoutPKI)
	switch {
	case err == nil:
		h.Log.WithField("revision", m.Revision).WithField("keys", m.Keys).Info("snapshot sent")
	case !out.begun && errors.Is(err, ErrBusy):
		refuse(w, http.StatusConflict, err.Error())
	case !out.begun:
		h.Log.WithError(err).Error("snapshot failed")
		refuse(w, http.StatusServiceUnavailable, err.Error())
	default:
		h.Log.WithError(err).Error("snapshot failed half-way")
		panic(http.ErrAbortHandler) // the client must not take the response for complete
	}
}

// begun remembers whether anything was sent, and fails if the client takes none of it.
type begun struct {
	http.ResponseWriter
	begun    bool
	patience time.Duration
}

var _ io.Writer = (*begun)(nil)

func (b *begun) Write(p []byte) (int, error) {
	if !b.begun {
		b.begun = true
		b.Header().Set("Content-Type", ContentType)
	}
	done := 0
	for piece := range slices.Chunk(p, pieceBytes) {
		n, err := b.send(piece)
		if done += n; err != nil {
			return done, err
		}
	}
	return done, nil
}

// send writes one piece. The deadline is for the time that the client takes, not for what the datastore takes until the next.
func (b *begun) send(piece []byte) (int, error) {
	control, deadline := http.NewResponseController(b.ResponseWriter), time.Now().Add(b.patience)
	if err := control.SetWriteDeadline(deadline); err != nil {
		return 0, err
	}
	n, err := b.ResponseWriter.Write(piece)
	// HTTP/2 clears a deadline some time after it was asked to. So the deadline of the piece before may end this write.
	if err != nil && (errors.Is(err, os.ErrDeadlineExceeded) || !time.Now().Before(deadline)) {
		return n, fmt.Errorf("the client has taken nothing for %s: %w", b.patience, err)
	}
	return n, errors.Join(err, control.SetWriteDeadline(time.Time{}))
}

func refuse(w http.ResponseWriter, code int, why string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = escape.WriteJSON(w, problem{why}, "") // fails only if the client has gone
}
