package apiserver

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"
)

// Store is what the API server asks about its datastore.
type Store struct {
	// Refusal returns why the datastore takes no writes, and the HTTP status that says so; 0 while it takes them.
	Refusal func() (code int, text string)
	// Left returns how much of the room that the datastore keeps for deletions is left, from 0 to 1.
	Left func() float64
	// Explain finds an error of the datastore in a message, and returns the HTTP status that it deserves; 0 if there
	// is none.
	Explain func(message string) (code int, text string)
}

// collector is the user whose patches go through while the datastore takes no other writes: they are part of deletions. On a full disk lessening
// lets others through too, where the object is known.
var collector = serviceaccount.MakeUsername(metav1.NamespaceSystem, "generic-garbage-collector")

// guarded refuses what would write to a datastore that takes no writes, but for what leads to less, and says what is wrong with the
// datastore where kube-apiserver knows of nothing but an internal error.
func guarded(next http.Handler, store Store) http.Handler {
	if store.Refusal == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := request.RequestInfoFrom(r.Context())
		if !ok || !info.IsResourceRequest || info.Verb == "watch" || info.Verb == "proxy" || info.Verb == "connect" {
			next.ServeHTTP(w, r)
			return
		}
		if writes(r, info) {
			code, text := store.Refusal()
			switch {
			case code == http.StatusInsufficientStorage && info.Verb != "create":
				r = withFullDisk(r, info, store, text) // the store sees whether it leads to less
			case code != 0:
				refuse(w, code, text)
				return
			}
		}
		explaining := &explaining{ResponseWriter: w, explain: store.Explain}
		next.ServeHTTP(responsewriter.WrapForHTTP1Or2(explaining), r)
		explaining.finish()
	})
}

// writes reports whether a request writes to the datastore, and is none of those that free it.
func writes(r *http.Request, info *request.RequestInfo) bool {
	switch info.Verb {
	case "create", "update":
	case "patch":
		u, ok := r.Context().Value(callerKey{}).(user.Info)
		return !ok || u.GetName() != collector
	default:
		return false
	}
	// Reviews and tokens are answered, not stored, and an eviction is a deletion.
	return info.Subresource != "eviction" && info.APIGroup != "authentication.k8s.io" && info.APIGroup != "authorization.k8s.io" && info.Subresource != "token"
}

// refuse answers with a Status. Clients are not told when to try again: they would do so by themselves, all of them.
func refuse(w http.ResponseWriter, code int, text string) {
	body, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure,
		Code:     int32(code),
		Reason:   reasonOf(code),
		Message:  text,
	})
	if err != nil { // of constants and strings
		http.Error(w, text, code)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.Header().Del("Content-Encoding")
	w.WriteHeader(code)
	_, _ = w.Write(body) // the client may have gone
}

// reasonOf is the reason that clients look for; there is none for a full disk.
func reasonOf(code int) metav1.StatusReason {
	if code == http.StatusServiceUnavailable {
		return metav1.StatusReasonServiceUnavailable
	}
	return metav1.StatusReasonUnknown
}

// explaining keeps an internal error back until it is whole. Everything else passes.
type explaining struct {
	http.ResponseWriter
	explain  func(message string) (code int, text string)
	internal *bytes.Buffer // nil but for an internal error
	began    bool
}

var _ responsewriter.UserProvidedDecorator = (*explaining)(nil)

func (e *explaining) Unwrap() http.ResponseWriter { return e.ResponseWriter }

func (e *explaining) WriteHeader(code int) {
	if e.began {
		return
	}
	e.began = true
	if code == http.StatusInternalServerError {
		e.internal = &bytes.Buffer{}
		return
	}
	e.ResponseWriter.WriteHeader(code)
}

func (e *explaining) Write(p []byte) (int, error) {
	e.began = true
	if e.internal != nil {
		return e.internal.Write(p)
	}
	return e.ResponseWriter.Write(p)
}

// messageOf returns what a Status says, in JSON or protobuf; nothing of any other body.
func messageOf(body []byte) string {
	var status metav1.Status
	envelope, protobuf := bytes.CutPrefix(body, []byte("k8s\x00"))
	if !protobuf {
		if json.Unmarshal(body, &status) != nil {
			return ""
		}
		return status.Message
	}
	var object runtime.Unknown
	if object.Unmarshal(envelope) != nil || status.Unmarshal(object.Raw) != nil {
		return ""
	}
	return status.Message
}

// Flush sends nothing of what is kept back.
func (e *explaining) Flush() {
	if f, ok := e.ResponseWriter.(http.Flusher); ok && e.internal == nil {
		e.began = true
		f.Flush()
	}
}

// finish sends what was kept back.
func (e *explaining) finish() {
	if e.internal == nil {
		return
	}
	message := messageOf(e.internal.Bytes())
	if code, text := e.explain(message); code != 0 {
		refuse(e.ResponseWriter, code, text)
		return
	}
	e.ResponseWriter.WriteHeader(http.StatusInternalServerError)
	_, _ = e.ResponseWriter.Write(e.internal.Bytes()) // the client may have gone
}
