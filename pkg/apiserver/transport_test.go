package apiserver

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
)

// call sends a request through a transport in front of handler.
func call(t *testing.T, ctx context.Context, handler http.HandlerFunc) (*http.Response, *transport, error) {
	t.Helper()
	tr := &transport{users: &courtesy{}, handler: handler, caller: &user.DefaultInfo{Name: "me"}, serving: &sync.WaitGroup{}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, inProcessHost+"/api/v1?watch=true", strings.NewReader("asked"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := tr.RoundTrip(req)
	return resp, tr, err
}

func TestAnswerIsWhole(t *testing.T) {
	long := strings.Repeat("x", 5*streamAfter)
	resp, tr, err := call(t, t.Context(), func(w http.ResponseWriter, r *http.Request) {
		asked, err := io.ReadAll(r.Body)
		if err != nil || string(asked) != "asked" || r.RequestURI != "/api/v1?watch=true" {
			t.Errorf("the handler saw %q at %s: %v", asked, r.RequestURI, err)
		}
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(http.StatusTeapot)
		w.Header().Set("Too-Late", "yes")
		_, _ = io.WriteString(w, long)
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(resp.Body)
	if err != nil || string(got) != long {
		t.Fatalf("read %d bytes of %d: %v", len(got), len(long), err)
	}
	if resp.StatusCode != http.StatusTeapot || resp.Header.Get("Content-Type") != "text/plain" || resp.Header.Get("Too-Late") != "" {
		t.Errorf("answer is %d %v", resp.StatusCode, resp.Header)
	}
	_ = resp.Body.Close()
	tr.serving.Wait()
}

func TestCallerIsKnownAndNobodyElse(t *testing.T) {
	_, tr, err := call(t, t.Context(), func(_ http.ResponseWriter, r *http.Request) {
		resp, ok, err := inProcessAuthenticator.AuthenticateRequest(r)
		if err != nil || !ok || resp.User.GetName() != "me" {
			t.Errorf("authenticated as %v, %v, %v", resp, ok, err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	tr.serving.Wait()
	stranger, _ := http.NewRequest(http.MethodGet, "https://host/api", nil)
	stranger.Header.Set("X-Remote-User", "system:admin")
	if _, ok, err := inProcessAuthenticator.AuthenticateRequest(stranger); ok || err != nil {
		t.Errorf("a request from outside is authenticated: %v, %v", ok, err)
	}
}

func TestStreamArrivesWhileTheHandlerRuns(t *testing.T) {
	more := make(chan struct{})
	resp, tr, err := call(t, t.Context(), func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "one")
		w.(http.Flusher).Flush()
		<-more
		_, _ = io.WriteString(w, "two")
		w.(http.Flusher).Flush()
	})
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 16)
	if n, err := resp.Body.Read(buf); string(buf[:n]) != "one" {
		t.Fatalf("read %q: %v", buf[:n], err)
	}
	close(more)
	if rest, err := io.ReadAll(resp.Body); string(rest) != "two" || err != nil {
		t.Fatalf("read %q: %v", rest, err)
	}
	_ = resp.Body.Close()
	tr.serving.Wait()
}

// A watch ends when its reader closes the body, even if the handler writes into a
// full buffer at that moment.
func TestClosedBodyEndsTheHandler(t *testing.T) {
	resp, tr, err := call(t, t.Context(), func(w http.ResponseWriter, r *http.Request) {
		for {
			if _, err := w.Write(make([]byte, streamAfter)); err != nil {
				break
			}
		}
		<-r.Context().Done()
	})
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	tr.serving.Wait()
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("a closed body ends like a whole one")
	}
}

func TestCancelledContextEndsCallAndHandler(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	_, tr, err := call(t, ctx, func(_ http.ResponseWriter, r *http.Request) {
		cancel(enough)
		<-r.Context().Done()
	})
	if !errors.Is(err, enough) {
		t.Errorf("the call ended with %v", err)
	}
	tr.serving.Wait()
}

// A handler can see that its context has ended, and return, before the goroutine runs
// that marks the response as closed. Here that goroutine never runs.
func TestAnswerIsNotWholeAfterTheContextsEnd(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	w := &responseWriter{ctx: ctx, answered: make(chan struct{})}
	w.changed.L = &w.mu
	w.finish(nil)
	if !errors.Is(w.aborted, enough) {
		t.Errorf("the answer ended with %v", w.aborted)
	}
	if _, err := io.ReadAll(&body{w: w, cancel: func() {}}); !errors.Is(err, enough) {
		t.Errorf("its body ended with %v", err)
	}
}

func TestAbortIsAnErrorAndNotAShortAnswer(t *testing.T) {
	if _, _, err := call(t, t.Context(), func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half")
		panic(http.ErrAbortHandler)
	}); err == nil {
		t.Error("an abort before anything was shown is no error")
	}
	resp, _, err := call(t, t.Context(), func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("an abort in the middle of a stream looks like its end")
	}
}

func TestOwnedArgumentsSayWhatToUse(t *testing.T) {
	for arg := range owned {
		if err := checkArg(arg + "=x"); err == nil || !strings.Contains(err.Error(), arg) {
			t.Errorf("%s: %v", arg, err)
		}
	}
}
