package snapshot

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/reap-dev/reap/tests/bubble"
)

func quiet() *logrus.Entry {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return logrus.NewEntry(log)
}

// maker returns a Maker for a store, with somePKI.
func maker(s *store) *Maker {
	return &Maker{Source: s, PKI: func(context.Context) (map[string][]byte, error) { return somePKI, nil }, Reap: "v1"}
}

func serve(t *testing.T, m *Maker) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(&Handler{Maker: m, Log: quiet()})
	t.Cleanup(s.Close)
	return s
}

func post(t *testing.T, url string) *http.Response {
	t.Helper()
	resp, err := http.Post(url, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

func TestHandlerSendsASnapshot(t *testing.T) {
	s := serve(t, maker(&store{records: someRecords(500)}))
	for query, files := range map[string]int{
		"": 2, "?pki=true": 2, "?pki=1": 2, "?pki=false": 0, "?pki=False": 0, "?pki=0": 0, "?pki=false&timeout=32s": 0,
	} {
		resp := post(t, s.URL+Path+query)
		got := 0
		m, err := Read(resp.Body, Visitor{File: func(string, []byte) error { got++; return nil }})
		if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != ContentType || err != nil || m.Keys != 500 || got != files || m.PKI != (files > 0) {
			t.Errorf("%q: %s, %+v, %d files, %v", query, resp.Status, m, got, err)
		}
	}
	for _, query := range []string{"?pki=", "?pki", "?pki=no", "?pki=bogus", "?pki=false&pki=true", "?PKI=false", "?pki=false;", "?keys=false"} {
		resp := post(t, s.URL+Path+query)
		var p problem
		if err := json.NewDecoder(resp.Body).Decode(&p); resp.StatusCode != http.StatusBadRequest || err != nil || p.Error == "" {
			t.Errorf("%q: %s, %+v, %v", query, resp.Status, p, err)
		}
	}
	resp, err := http.Get(s.URL + Path)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET: %s", resp.Status)
	}
}

// The client must notice that the snapshot is incomplete.
func TestHandlerAbortsAnIncompleteSnapshot(t *testing.T) {
	records := someRecords(20000)
	for i := range records {
		records[i].Value = []byte(time.Duration(i * 7919 * 104729).String()) // so that there is something to send
	}
	broken := errors.New("the disk cannot be read")
	for _, tc := range []struct {
		at   int
		code int
	}{{0, http.StatusServiceUnavailable}, {len(records) - 1, http.StatusOK}} {
		s := serve(t, maker(&store{records: records, before: func(i int) error {
			if i == tc.at {
				return broken
			}
			return nil
		}}))
		resp := post(t, s.URL+Path)
		raw, err := io.ReadAll(resp.Body)
		if resp.StatusCode != tc.code {
			t.Errorf("at %d: %s", tc.at, resp.Status)
		}
		if resp.StatusCode == http.StatusOK && err == nil {
			t.Errorf("at %d: it ends in order after %d bytes", tc.at, len(raw))
		}
		if resp.StatusCode != http.StatusOK {
			var p problem
			if err := json.Unmarshal(raw, &p); err != nil || p.Error != broken.Error() {
				t.Errorf("at %d: %q (%v)", tc.at, raw, err)
			}
		}
	}
}

func TestOneSnapshotAtATime(t *testing.T) {
	began, goOn := make(chan struct{}), make(chan struct{})
	m := maker(&store{records: someRecords(2), before: func(i int) error {
		if i == 0 {
			close(began)
			<-goOn
		}
		return nil
	}})
	first := make(chan error, 1)
	go func() { _, err := m.Make(t.Context(), io.Discard, false); first <- err }()
	<-began
	if _, err := m.Make(t.Context(), io.Discard, false); !errors.Is(err, ErrBusy) {
		t.Errorf("a second one: %v", err)
	}
	if resp := post(t, serve(t, m).URL+Path); resp.StatusCode != http.StatusConflict {
		t.Errorf("a second one: %s", resp.Status)
	}
	close(goOn)
	if err := <-first; err != nil {
		t.Error(err)
	}
}

// TestStalledClientIsGivenUp has a client that reads nothing of a large snapshot: the next one can be made all the same.
func TestStalledClientIsGivenUp(t *testing.T) {
	records := someRecords(2000)
	random := rand.NewChaCha8([32]byte{})
	for i := range records {
		records[i].Value = make([]byte, 10<<10) // together more than the system keeps for the client
		_, _ = random.Read(records[i].Value)    // never fails
	}
	for _, http2 := range []bool{false, true} {
		log, logged := logrus.New(), new(bytes.Buffer)
		log.SetOutput(logged)
		h := &Handler{Maker: maker(&store{records: records}), Log: logrus.NewEntry(log), patience: 100 * time.Millisecond}
		ended := make(chan struct{})
		resp := ask(t, http2, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer close(ended)
			h.ServeHTTP(w, r)
		}))
		if (resp.ProtoMajor == 2) != http2 {
			t.Fatalf("the answer comes by %s", resp.Proto)
		}
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Fatalf("%s: the server still waits for its client", resp.Proto)
		}
		if !strings.Contains(logged.String(), "the client has taken nothing for 100ms") {
			t.Errorf("%s: the log says %s", resp.Proto, logged)
		}
		if _, err := h.Maker.Make(t.Context(), io.Discard, false); err != nil {
			t.Errorf("%s: the next: %v", resp.Proto, err)
		}
	}
}

// late is an answer whose write ends with the deadline of the one before, as HTTP/2's may.
type late struct{ http.ResponseWriter }

func (late) SetWriteDeadline(time.Time) error { return nil }

func (late) Write([]byte) (int, error) { return 0, os.ErrDeadlineExceeded }

// A client that takes most of its time for one piece is given up during the next: the log names the client then, too.
func TestDeadlineOfThePieceBefore(t *testing.T) {
	b := &begun{ResponseWriter: late{httptest.NewRecorder()}, patience: time.Hour}
	if _, err := b.Write([]byte("a piece")); !errors.Is(err, os.ErrDeadlineExceeded) || !strings.Contains(err.Error(), "the client has taken nothing for 1h") {
		t.Errorf("the error is %v", err)
	}
}

// ask asks for a snapshot over TLS, and returns the answer, of which nothing has been read.
func ask(t *testing.T, http2 bool, h http.Handler) *http.Response {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = http2
	s.StartTLS()
	t.Cleanup(s.Close)
	resp, err := s.Client().Post(s.URL+Path, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// deadlined notes the deadline of an answer's writes.
type deadlined struct {
	http.ResponseWriter
	deadline time.Time
	writes   int // with a deadline
}

func (d *deadlined) SetWriteDeadline(at time.Time) error {
	d.deadline = at
	return http.NewResponseController(d.ResponseWriter).SetWriteDeadline(at)
}

func (d *deadlined) Write(p []byte) (int, error) {
	if !d.deadline.IsZero() {
		d.writes++
	}
	return d.ResponseWriter.Write(p)
}

// A slow datastore is not the client's fault: the client has a deadline for each piece, and none while the datastore is read.
func TestPatienceIsWithTheClientAlone(t *testing.T) {
	records := someRecords(20)
	random := rand.NewChaCha8([32]byte{})
	for i := range records {
		records[i].Value = make([]byte, 200<<10) // so that each is sent
		_, _ = random.Read(records[i].Value)     // never fails
	}
	answer := new(deadlined)
	h := &Handler{Maker: maker(&store{records: records, before: func(i int) error {
		if !answer.deadline.IsZero() {
			t.Errorf("at record %d the client still has a deadline", i)
		}
		return nil
	}}), Log: quiet()}
	resp := ask(t, true, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer.ResponseWriter = w
		h.ServeHTTP(answer, r)
		if answer.writes < len(records)*len(records[0].Value)/pieceBytes {
			t.Errorf("%d writes have had a deadline", answer.writes)
		}
	}))
	if m, err := Read(resp.Body, Visitor{}); err != nil || m.Keys != 20 {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestUnreadablePKIIsAnError(t *testing.T) {
	m := maker(&store{})
	broken := errors.New("no")
	m.PKI = func(context.Context) (map[string][]byte, error) { return nil, broken }
	var out bytes.Buffer
	if _, err := m.Make(t.Context(), &out, true); !errors.Is(err, broken) || out.Len() > 0 {
		t.Errorf("%v, %d bytes", err, out.Len())
	}
	if _, err := m.Make(t.Context(), &out, false); err != nil {
		t.Error(err)
	}
}

// TestScheduleKeepsToItsInterval covers restarts, failures and a clock that jumps.
func TestScheduleKeepsToItsInterval(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "snapshots")
	count := func() int {
		t.Helper()
		all, err := List(t.Context(), dir, false, nil)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return len(all)
	}
	fails := false
	m := maker(&store{records: someRecords(3), before: func(int) error {
		if fails {
			return errors.New("no")
		}
		return nil
	}})
	bubble.Test(t, func(t *testing.T) {
		// run runs it for a while and returns how many were made.
		run := func(d time.Duration) int {
			before := count()
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				(&Schedule{Maker: m, Dir: dir, Interval: time.Hour, Retain: 100, Log: quiet()}).Run(ctx)
			}()
			time.Sleep(d)
			synctest.Wait()
			cancel()
			<-done
			return count() - before
		}
		if got := run(time.Minute); got != 1 {
			t.Errorf("the first start makes %d", got)
		}
		if got := run(30 * time.Minute); got != 0 {
			t.Errorf("a start soon after makes %d", got)
		}
		if got := run(30 * time.Minute); got != 1 {
			t.Errorf("when it is due, %d are made", got)
		}
		if got := run(10*time.Hour + time.Minute); got != 10 {
			t.Errorf("ten hours make %d", got)
		}
		fails = true
		if got := run(2 * time.Hour); got != 0 {
			t.Errorf("%d were made of what cannot be read", got)
		}
		fails = false
		if got := run(retryAfter + time.Minute); got != 1 {
			t.Errorf("after a failure %d are made", got)
		}
		save(t, dir, time.Now().Add(1000*time.Hour)) // by a clock that has gone back since
		if got := run(time.Hour + time.Minute); got != 1 {
			t.Errorf("after a clock went back, an hour makes %d", got)
		}
	})
}

func TestScheduleRetainsTheNewest(t *testing.T) {
	dir := t.TempDir()
	s := &Schedule{Maker: maker(&store{records: someRecords(3)}), Dir: dir, Interval: time.Hour, Retain: 3, Log: quiet()}
	for range 7 {
		if !s.once(t.Context()) {
			t.Fatal("it failed")
		}
	}
	all, err := List(t.Context(), dir, true, nil)
	if err != nil || len(all) != 3 || all[0].number != 5 || all[2].number != 7 || all[2].Problem != "" || !all[2].PKI {
		t.Errorf("%+v (%v)", all, err)
	}
}
