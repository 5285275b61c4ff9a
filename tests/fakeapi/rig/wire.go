package rig

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

func init() {
	// The other handler delays an error that is reported soon after another, and remembers when that was. It cannot be
	// shared, because each bubble has a time of its own.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
}

var errCut = errors.New("the wire is cut")

// wire carries requests to a handler without a network, which no synctest bubble could wait for. It streams, a
// cancelled request ends at both ends, and once it is cut nothing passes any more.
type wire struct {
	handler http.Handler
	cut     atomic.Bool
}

// RoundTrip returns when the handler has begun to answer.
func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	if w.cut.Load() {
		return nil, errCut
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	reader, writer := io.Pipe()
	a := &answer{wire: w, header: http.Header{}, body: writer, begun: make(chan struct{})}
	served := r.Clone(ctx)
	if served.Body == nil {
		served.Body = http.NoBody
	}
	go func() {
		var err error
		defer func() {
			if p := recover(); p != nil && p != http.ErrAbortHandler {
				panic(p)
			} else if p != nil || w.cut.Load() {
				err = io.ErrUnexpectedEOF
				cancel(err)
			}
			if err == nil {
				a.WriteHeader(http.StatusOK)
			}
			_ = writer.CloseWithError(err) // never fails
		}()
		w.handler.ServeHTTP(a, served)
	}()
	select {
	case <-a.begun:
		return &http.Response{
			Status: http.StatusText(a.code), StatusCode: a.code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: a.header, ContentLength: -1, Request: r, Body: &answerBody{reader, cancel},
		}, nil
	case <-ctx.Done():
		_ = reader.CloseWithError(ctx.Err()) // never fails
		return nil, context.Cause(ctx)
	}
}

// answer is the handler's end of an answer.
type answer struct {
	wire   *wire
	header http.Header
	body   *io.PipeWriter
	begun  chan struct{}
	code   int
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(code int) {
	if a.code == 0 {
		a.code = code
		a.header = a.header.Clone()
		if !a.wire.cut.Load() {
			close(a.begun)
		}
	}
}

func (a *answer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	if a.wire.cut.Load() {
		return 0, errCut
	}
	return a.body.Write(b)
}

func (a *answer) Flush() { a.WriteHeader(http.StatusOK) }

// answerBody is the client's end.
type answerBody struct {
	*io.PipeReader
	cancel context.CancelCauseFunc
}

// Close tells the handler that nobody reads any more.
func (b *answerBody) Close() error {
	b.cancel(errCut)
	return b.PipeReader.Close()
}
