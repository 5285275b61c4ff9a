package snapshot

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/sirupsen/logrus"
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
type Handler struct {
	Maker *Maker
	Log   *logrus.Entry
}

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
	out := &begun{ResponseWriter: w}
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

// begun remembers whether anything was sent.
type begun struct {
	http.ResponseWriter
	begun bool
}

var _ io.Writer = (*begun)(nil)

func (b *begun) Write(p []byte) (int, error) {
	if !b.begun {
		b.begun = true
		b.Header().Set("Content-Type", ContentType)
	}
	return b.ResponseWriter.Write(p)
}

func refuse(w http.ResponseWriter, code int, why string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(problem{why}) // fails only if the client has gone
}
