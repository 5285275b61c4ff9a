package model

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/tests/fakeapi"
)

// wire connects the real code with the simulated server, without sockets. A request
// proceeds only when a step of the world says so.
type wire struct{}

// request is one request of the real code. It stops until a step delivers it to the
// server, and again until a step delivers its answer.
type request struct {
	turn            *turn
	method          string
	kind            *kind
	version         string
	namespace, name string // no name: a list
	// whole is true if the request asks for more than metadata.
	whole bool
	body  []byte

	asked    bool // the world has noticed it
	answered bool // by the server
	answer   *http.Response
	err      error
	// found is the object that a read returned.
	found *object
	reply chan struct{} // closed to deliver the answer
}

type turnKey struct{}

// errLost is the error of a call that fails: a read before it is sent, a write after it
// was done.
var errLost = errors.New("the connection is lost")

// RoundTrip blocks until the world has answered, or until the request's context is
// cancelled.
func (wire) RoundTrip(req *http.Request) (*http.Response, error) {
	r, err := parse(req)
	if err != nil {
		return nil, err
	}
	r.turn.enter(r)
	defer r.turn.leave(r)
	select {
	case <-r.reply:
		if r.err != nil {
			return nil, r.err
		}
		return r.answer, nil
	case <-req.Context().Done():
		return nil, context.Cause(req.Context())
	}
}

// parse reads a request: /api/v1/… or /apis/group/version/….
func parse(req *http.Request) (*request, error) {
	turn, mine := req.Context().Value(turnKey{}).(*turn)
	if !mine {
		return nil, errors.New("a request of nobody's turn")
	}
	r := &request{turn: turn, method: req.Method, reply: make(chan struct{}), whole: !strings.Contains(req.Header.Get("Accept"), "PartialObjectMetadata")}
	parts := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	group := ""
	if parts[0] == "apis" {
		group, parts = parts[1], parts[1:]
	}
	r.version, parts = parts[1], parts[2:]
	if parts[0] == "namespaces" {
		r.namespace, parts = parts[1], parts[2:]
	}
	i := slices.IndexFunc(allKinds, func(k *kind) bool { return k.Group == group && k.Name == parts[0] })
	if i < 0 {
		return nil, fmt.Errorf("no such resource: %s", req.URL.Path)
	}
	r.kind = allKinds[i]
	if len(parts) > 1 {
		r.name = parts[1]
	}
	if req.Body != nil {
		var err error
		if r.body, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
		_ = req.Body.Close() // a RoundTripper must close it; all has been read
	}
	return r, nil
}

func (r *request) reads() bool { return r.method == http.MethodGet }

func (r *request) lists() bool { return r.name == "" }

// removesFinalizer reports whether the request is a patch that releases an owner.
func (r *request) removesFinalizer() bool {
	return r.method == http.MethodPatch && bytes.Contains(r.body, []byte(`"finalizers"`))
}

// place is the order of requests that are under way at the same time.
func (r *request) place() string { return place(r.kind, r.namespace, r.name) }

// serve delivers the request to the server.
func (r *request) serve(m *model) {
	r.answered = true
	switch {
	case r.lists():
		r.list(m)
	case r.method == http.MethodGet:
		o, out := m.get(r.kind, r.version, r.namespace, r.name, r.whole)
		r.found = o
		r.respond(o, out)
	case r.method == http.MethodDelete:
		r.delete(m)
	default:
		r.patch(m)
	}
}

func (r *request) list(m *model) {
	s := m.server
	m.called("list %s %s", r.version, r.place())
	if !s.served[r.kind] || !slices.Contains(r.kind.Versions, r.version) {
		r.respond(nil, unserved)
		return
	}
	l := metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"}}
	for _, o := range s.objects {
		if o.storage == r.kind.storage && (r.namespace == "" || o.namespace == r.namespace) {
			l.Items = append(l.Items, *o.metadata())
		}
	}
	r.answer = answer(http.StatusOK, l)
}

// precondition finds the object of a write by the preconditions that the write carries.
func (r *request) precondition(m *model, uid types.UID, version string) (*object, outcome) {
	if uid == "" || version == "" {
		m.fail("%s of %s without preconditions", r.method, r.place())
	}
	return m.server.current(r.kind, &graph.Record{Namespace: r.namespace, Name: r.name, UID: uid, ResourceVersion: version})
}

func (r *request) delete(m *model) {
	options, err := fakeapi.DeleteOptions(r.body)
	if err != nil || options.PropagationPolicy == nil || options.Preconditions == nil || options.Preconditions.UID == nil || options.Preconditions.ResourceVersion == nil {
		m.fail("a delete says %s", r.body)
		r.err = errLost
		return
	}
	o, out := r.precondition(m, *options.Preconditions.UID, *options.Preconditions.ResourceVersion)
	m.called("delete %s %s %s %s %s", r.version, r.place(), *options.Preconditions.UID, *options.Preconditions.ResourceVersion, *options.PropagationPolicy)
	if out == ok {
		m.judgeDelete(o, *options.PropagationPolicy, r.turn.decided)
		m.server.end(o, *options.PropagationPolicy)
	}
	r.respond(o, out)
}

func (r *request) patch(m *model) {
	var p struct {
		Metadata struct {
			UID             types.UID
			ResourceVersion string
			OwnerReferences *[]metav1.OwnerReference
			Finalizers      *[]string
		}
	}
	decoder := json.NewDecoder(bytes.NewReader(r.body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&p); err != nil || (p.Metadata.OwnerReferences == nil) == (p.Metadata.Finalizers == nil) {
		m.fail("a patch says %s", r.body)
		r.err = errLost
		return
	}
	o, out := r.precondition(m, p.Metadata.UID, p.Metadata.ResourceVersion)
	if p.Metadata.Finalizers != nil {
		m.called("patch %s %s %s %s finalizers %v", r.version, r.place(), p.Metadata.UID, p.Metadata.ResourceVersion, *p.Metadata.Finalizers)
		if out == conflict && r.turn.orphaning {
			m.forgetOrphaned(r.turn.key.UID)
		}
		if out == ok {
			r.setFinalizers(m, o, *p.Metadata.Finalizers)
		}
	} else {
		refs := make([]graph.Reference, 0, len(*p.Metadata.OwnerReferences))
		for _, ref := range *p.Metadata.OwnerReferences {
			refs = append(refs, graph.ReferenceOf(ref))
		}
		m.called("patch %s %s %s %s references %v", r.version, r.place(), p.Metadata.UID, p.Metadata.ResourceVersion, refs)
		if out == ok {
			r.setReferences(m, o, refs)
		}
	}
	r.respond(o, out)
}

// setFinalizers removes one of the collector's finalizers from an object; nothing else may
// change.
func (r *request) setFinalizers(m *model, o *object, finalizers []string) {
	released := o.without(r.turn.orphaning)
	if r.turn.orphaning {
		m.judgeOrphaned(o, r.turn.pass)
	} else {
		m.judgeRelease(o, r.turn.decided, r.turn.went, r.turn.late)
	}
	if want := released.metadata().Finalizers; !slices.Equal(want, finalizers) {
		m.fail("the collector leaves %s the finalizers %v, not %v", o.uid, finalizers, want)
	}
	m.server.put(*released)
}

// setReferences drops or unblocks references; nothing else may change.
func (r *request) setReferences(m *model, o *object, refs []graph.Reference) {
	if r.turn.looking {
		unblock := r.unblocked(m, o, refs)
		m.judgeUnblock(o, unblock)
		m.server.unblock(o, unblock)
		return
	}
	var drop []graph.Reference
	left := refs
	for _, ref := range o.refs {
		if len(left) > 0 && left[0] == ref && !slices.Contains(drop, ref) {
			left = left[1:]
		} else {
			drop = append(drop, ref)
		}
	}
	if len(left) > 0 {
		m.fail("the collector gives %s references that it did not have: %v", o.uid, left)
	}
	if !r.turn.orphaning {
		m.judgeDrop(o, drop, r.turn.decided)
	} else if m.frees++; slices.ContainsFunc(drop, func(ref graph.Reference) bool { return ref.UID != r.turn.key.UID }) {
		m.fail("the collector orphans %s and takes others' references out of %s: %v", r.turn.key.UID, o.uid, drop)
	}
	m.server.drop(o, drop)
}

// unblocked returns the references of an object that are no longer to block.
func (r *request) unblocked(m *model, o *object, refs []graph.Reference) (unblock []graph.Reference) {
	if len(refs) != len(o.refs) {
		m.fail("the collector breaks a ring and leaves %s the references %v", o.uid, refs)
		return nil
	}
	for i, ref := range o.refs {
		if refs[i] == ref {
			continue
		}
		unblock = append(unblock, ref)
		if ref.BlockOwnerDeletion = graph.False; refs[i] != ref {
			m.fail("the collector breaks a ring and makes %v of a reference of %s", refs[i], o.uid)
		}
	}
	return unblock
}

// respond answers with an object, or as the real server does if there is none.
func (r *request) respond(o *object, out outcome) {
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
		Details: &metav1.StatusDetails{Group: r.kind.Group, Kind: r.kind.Name, Name: r.name},
	}
	switch out {
	case ok:
		r.answer = answer(http.StatusOK, o.metadata())
	case notFound:
		status.Code, status.Reason = http.StatusNotFound, metav1.StatusReasonNotFound
		r.answer = answer(http.StatusNotFound, status)
	case conflict:
		status.Code, status.Reason = http.StatusConflict, metav1.StatusReasonConflict
		r.answer = answer(http.StatusConflict, status)
	default:
		r.answer = &http.Response{StatusCode: http.StatusNotFound, Header: http.Header{"Content-Type": {"text/plain"}}, Body: io.NopCloser(strings.NewReader("404 page not found\n"))}
	}
}

func answer(code int, body any) *http.Response {
	b, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(b))}
}

// held is the name of somebody else's finalizer.
const held = "model/held"

// metadata returns an object as the server shows it.
func (o *object) metadata() *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"},
		ObjectMeta: metav1.ObjectMeta{Namespace: o.namespace, Name: o.name, UID: o.uid, ResourceVersion: o.record().ResourceVersion, CreationTimestamp: metav1.NewTime(o.createdAt)},
	}
	for _, ref := range o.refs {
		m.OwnerReferences = append(m.OwnerReferences, ref.OwnerReference())
	}
	if o.deleting {
		m.DeletionTimestamp = &metav1.Time{Time: o.deletedAt}
	}
	switch {
	case o.timeout == graph.NoTimeout:
		m.Annotations = map[string]string{graph.SyncTimeoutAnnotation: "never"}
	case o.timeout > 0:
		m.Annotations = map[string]string{graph.SyncTimeoutAnnotation: o.timeout.String()}
	}
	if o.held {
		m.Finalizers = append(m.Finalizers, held)
	}
	if o.foreground {
		m.Finalizers = append(m.Finalizers, metav1.FinalizerDeleteDependents)
	}
	if o.orphan {
		m.Finalizers = append(m.Finalizers, metav1.FinalizerOrphanDependents)
	}
	return m
}
