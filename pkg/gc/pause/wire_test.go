package pause

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/reap-dev/reap/tests/bubble"
)

// wire is the transport of a client. It answers as an API server would, with the ConfigMap or without it.
type wire struct {
	data map[string]string // nil if there is none
	// first answers a request in the server's place if it returns a response or an error.
	first func(r *http.Request) (*http.Response, error)
	// watches are the queries of the watches; each watch ends at once.
	watches []map[string]string
}

const listedAt = "77"

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	if w.first != nil {
		if answer, err := w.first(r); answer != nil || err != nil {
			return answer, err
		}
	}
	m := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: Name, ResourceVersion: "1"}, Data: w.data}
	single := strings.HasSuffix(r.URL.Path, "/"+Name)
	switch {
	case r.Method == http.MethodPost && w.data != nil:
		return failure(apierrors.NewAlreadyExists(configMaps, Name)), nil
	case r.Method == http.MethodPost, r.Method == http.MethodPut:
		var written corev1.ConfigMap
		if err := json.NewDecoder(r.Body).Decode(&written); err != nil {
			return nil, err
		}
		w.data = written.Data
		m.Data = written.Data
	case r.URL.Query().Get("watch") != "":
		q := map[string]string{}
		for k := range r.URL.Query() {
			q[k] = r.URL.Query().Get(k)
		}
		w.watches = append(w.watches, q)
		return reply(http.StatusOK, nil), nil
	case single && w.data == nil:
		return failure(apierrors.NewNotFound(configMaps, Name)), nil
	case !single:
		l := &corev1.ConfigMapList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMapList"}, ListMeta: metav1.ListMeta{ResourceVersion: listedAt}}
		if w.data != nil {
			l.Items = []corev1.ConfigMap{*m}
		}
		return reply(http.StatusOK, l), nil
	}
	return reply(http.StatusOK, m), nil
}

func reply(code int, body any) *http.Response {
	var raw []byte
	if body != nil {
		raw, _ = json.Marshal(body) // cannot fail for API objects
	}
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(raw))}
}

func failure(err *apierrors.StatusError) *http.Response {
	s := err.ErrStatus
	s.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	return reply(int(s.Code), s)
}

func (w *wire) client(t *testing.T) typedcorev1.ConfigMapsGetter {
	t.Helper()
	// The client asks for protobuf by default.
	c, err := typedcorev1.NewForConfig(&rest.Config{Host: "http://server.invalid", QPS: -1, Transport: w, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Writes that others make at the same time are not overwritten, and do not keep the pause from being written.
func TestPauseIsWrittenWhateverOthersWrite(t *testing.T) {
	type try = func(w *wire, r *http.Request) *http.Response
	for name, c := range map[string]struct {
		data   map[string]string
		method string // of the first write, which loses against another
		answer try
	}{
		"changed meanwhile": {map[string]string{keyPaused: "false", keyPast: "2020-01-01T00:00:00Z/2020-01-02T00:00:00Z\n"}, http.MethodPut, func(w *wire, _ *http.Request) *http.Response {
			w.data[keyPast] += "2021-01-01T00:00:00Z/2021-01-02T00:00:00Z\n"
			return failure(apierrors.NewConflict(configMaps, Name, errors.New("it was changed")))
		}},
		"created meanwhile": {nil, http.MethodPost, func(w *wire, _ *http.Request) *http.Response {
			w.data = map[string]string{keyPaused: "false", keyPast: "2020-01-01T00:00:00Z/2020-01-02T00:00:00Z\n2021-01-01T00:00:00Z/2021-01-02T00:00:00Z\n"}
			return failure(apierrors.NewAlreadyExists(configMaps, Name))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := &wire{data: c.data}
			once := true
			w.first = func(r *http.Request) (*http.Response, error) {
				if once && r.Method == c.method {
					once = false
					return c.answer(w, r), nil
				}
				return nil, nil
			}
			s, changed, err := Begin(t.Context(), w.client(t), "me", "why", at(0))
			if err != nil || !changed || !s.Paused || len(s.Past) != 2 || once {
				t.Errorf("%+v, changed %v, %v", s, changed, err)
			}
			if back, err := stateOf(w.data); err != nil || !back.Paused || back.By != "me" || len(back.Past) != 2 {
				t.Errorf("the ConfigMap holds %v (%v)", w.data, err)
			}
		})
	}
}

// Any change replaces a pause that cannot be understood by one that can.
func TestUnreadableStateIsReplaced(t *testing.T) {
	for _, pause := range []bool{true, false} {
		w := &wire{data: map[string]string{keyPaused: "perhaps"}}
		var changed bool
		var err error
		if pause {
			_, changed, err = Begin(t.Context(), w.client(t), "me", "", at(0))
		} else {
			_, changed, err = End(t.Context(), w.client(t), at(0))
		}
		if err != nil || !changed || w.data[keyPaused] != strconv.FormatBool(pause) {
			t.Errorf("pause %v: %v, changed %v, %v", pause, w.data, changed, err)
		}
	}
}

// The watch begins at the revision of the list. It ends after a while, so that a lost event does
// not matter for ever.
func TestWatchFollowsItsList(t *testing.T) {
	w := &wire{data: map[string]string{keyPaused: "true"}}
	f := &watcher{maps: w.client(t).ConfigMaps(Namespace), saw: func(State) {}, failed: func(err error) { t.Error(err) }}
	for range 3 {
		if err := f.follow(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, q := range w.watches {
		seconds, err := strconv.Atoi(q["timeoutSeconds"])
		if err != nil || seconds < int(watchFor.Seconds()) || seconds > 2*int(watchFor.Seconds()) {
			t.Errorf("a watch of %d s (%v)", seconds, err)
		}
		if q["resourceVersion"] != listedAt || q["fieldSelector"] != "metadata.name="+Name {
			t.Errorf("the watch asks for %v, want the ConfigMap %s from revision %s", q, Name, listedAt)
		}
	}
	if len(w.watches) != 3 {
		t.Errorf("%d watches, want 3", len(w.watches))
	}
}

// A server that does not answer must not keep the pause from being read again.
func TestReadsAndListsEndWithTheirTimeout(t *testing.T) {
	for name, call := range map[string]func(context.Context, *watcher) error{
		"read": func(ctx context.Context, w *watcher) error { return w.read(ctx) },
		"list": func(ctx context.Context, w *watcher) error { _, err := w.list(ctx, ""); return err },
	} {
		bubble.Test(t, func(t *testing.T) {
			w := &wire{first: func(r *http.Request) (*http.Response, error) {
				select {
				case <-r.Context().Done():
				case <-time.After(time.Hour): // only so that the test ends without a timeout
				}
				return nil, errors.New("no answer")
			}}
			began := time.Now()
			err := call(t.Context(), &watcher{maps: w.client(t).ConfigMaps(Namespace), saw: func(State) {}})
			if took := time.Since(began); err == nil || took != callTimeout {
				t.Errorf("%s: it took %s (%v)", name, took, err)
			}
		})
	}
}

// Only a NotFound from the resource itself proves that there is no such ConfigMap.
func TestOnlyTheConfigMapsOwnNotFoundIsAbsence(t *testing.T) {
	passedOn := apierrors.NewNotFound(configMaps, Name)
	passedOn.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeUnexpectedServerResponse}}
	bare := apierrors.NewNotFound(configMaps, Name)
	bare.ErrStatus.Details = nil
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"its own":          {apierrors.NewNotFound(configMaps, Name), true},
		"another name":     {apierrors.NewNotFound(configMaps, "other"), false},
		"another resource": {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, Name), false},
		"passed on":        {passedOn, false},
		"without details":  {bare, false},
		"forbidden":        {apierrors.NewForbidden(configMaps, Name, errors.New("no")), false},
		"a page":           {apierrors.NewGenericServerResponse(404, "get", configMaps, Name, "page not found", 0, true), false},
	} {
		s := newServer()
		s.read = func() (*corev1.ConfigMap, error) { return nil, c.err }
		w := &watcher{maps: s.ConfigMaps(Namespace), saw: func(State) {}}
		if err := w.read(t.Context()); (err == nil) != c.want || w.known != c.want {
			t.Errorf("%s: absent %t (%v), want %t", name, w.known, err, c.want)
		}
	}
}
