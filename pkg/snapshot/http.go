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

// WithoutPKI is the query that asks for one without keys and certificates: ?pki=false.
const (
	QueryPKI   = "pki"
	WithoutPKI = "false"
)

// ContentType is that of a snapshot.
const ContentType = "application/vnd.reap.snapshot"

// Handler serves a snapshot to each
//
//	POST /reap/v1/snapshot?pki=false
//
// It does not check who asks: that is for the server that it is part of. A snapshot holds every secret. It takes POST, so
// that nobody may make one who was only allowed to get the reports beside it.
type Handler struct {
	Maker *Maker
	Log   *logrus.Entry
}

// problem is the answer when there is no snapshot.
type problem struct {
	Error string `json:"error"`
}

// ServeHTTP implements http.Handler. A snapshot that fails when some of it has been sent ends the connection.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		refuse(w, http.StatusMethodNotAllowed, "a snapshot is asked for with POST; 'reap snapshot save' does")
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
		panic(http.ErrAbortHandler) // who asked must not take what there is for all
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
	_ = json.NewEncoder(w).Encode(problem{why}) // whoever asked has gone
}
