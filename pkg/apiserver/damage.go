package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/kubernetes/pkg/apis/apps"

	"github.com/reap-dev/reap/pkg/datastore/intact"
)

// undecodable is the error of a stored object that does not decode, or that could not be encoded again.
type undecodable struct{ err error }

func (u *undecodable) Error() string { return u.err.Error() }
func (u *undecodable) Unwrap() error { return u.err }

// checkingDecoder refuses an object that could not be encoded for a client. The encoder would find out after a part of a
// list has been sent.
type checkingDecoder struct{ etcd3.Decoder }

func (d checkingDecoder) Decode(value []byte, into runtime.Object, revision int64) error {
	err := d.Decoder.Decode(value, into, revision)
	if err == nil {
		err = check(into)
	}
	if err != nil {
		return &undecodable{err}
	}
	return nil
}

func (d checkingDecoder) DecodeListItem(ctx context.Context, value []byte, revision uint64, newItem func() runtime.Object) (runtime.Object, error) {
	o, err := d.Decoder.DecodeListItem(ctx, value, revision, newItem)
	if err == nil {
		err = check(o)
	}
	if err != nil {
		return nil, &undecodable{err}
	}
	return o, nil
}

// check also knows the API server's internal type of a ControllerRevision, which holds raw JSON.
func check(o runtime.Object) error {
	if r, ok := o.(*apps.ControllerRevision); ok {
		if err := intact.JSON(r.Data.Raw); err != nil {
			return fmt.Errorf("data: %w", err)
		}
	}
	return intact.Check(o)
}

// explainingDamage is a store whose errors about a damaged object name its key and what helps.
type explainingDamage struct {
	storage.Interface
	prefix   string
	resource schema.GroupResource
	damage   *damage
}

func (s explainingDamage) Get(ctx context.Context, key string, o storage.GetOptions, into runtime.Object) error {
	return s.explain(ctx, key, s.Interface.Get(ctx, key, o, into))
}

func (s explainingDamage) GetList(ctx context.Context, key string, o storage.ListOptions, into runtime.Object) error {
	return s.explain(ctx, key, s.Interface.GetList(ctx, key, o, into))
}

func (s explainingDamage) Delete(ctx context.Context, key string, into runtime.Object, p *storage.Preconditions,
	valid storage.ValidateObjectFunc, suggestion runtime.Object, o storage.DeleteOptions,
) error {
	return s.explain(ctx, key, s.Interface.Delete(ctx, key, into, p, valid, suggestion, o))
}

func (s explainingDamage) GuaranteedUpdate(ctx context.Context, key string, into runtime.Object, ignoreNotFound bool, p *storage.Preconditions,
	update storage.UpdateFunc, suggestion runtime.Object,
) error {
	return s.explain(ctx, key, s.Interface.GuaranteedUpdate(ctx, key, into, ignoreNotFound, p, update, suggestion))
}

// explain returns errors as they are that are not about a damaged object.
func (s explainingDamage) explain(ctx context.Context, key string, err error) error {
	var (
		decoding *undecodable
		status   *apierrors.StatusError
		details  = &metav1.StatusDetails{Group: s.resource.Group, Kind: s.resource.Resource}
		reason   error
	)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &status) && status.ErrStatus.Reason == metav1.StatusReasonStoreReadError: // of a list
		reason = errors.New(status.ErrStatus.Message)
		if d := status.ErrStatus.Details; d != nil && len(d.Causes) > 0 {
			details.Causes = d.Causes
			key = d.Causes[0].Field
		}
	case errors.As(err, &decoding):
		reason = decoding.err
	case storage.IsCorruptObject(err): // it was encrypted with another key
		reason = err
	default:
		return err
	}
	if !strings.HasPrefix(key, s.prefix+"/") {
		key = s.prefix + "/" + strings.TrimPrefix(key, "/")
	}
	damaged := &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonStoreReadError, Details: details,
		Message: fmt.Sprintf("the stored object %s of %s is damaged: run `reap db check` with the server stopped to see all damaged keys, and "+
			"`reap snapshot restore` to go back to a snapshot; to give up this object alone, send DELETE with "+
			"ignoreStoreReadErrorWithClusterBreakingPotential=true (%v)", key, s.resource, reason),
	}}
	s.damage.notice(ctx, key, damaged)
	return damaged
}

// damageLasts is how long the start's reads of a damaged object go on before the start fails. kube-apiserver repeats reads
// on which its readiness depends at least each second. Others end by themselves, on a slow device after seconds.
const damageLasts = 10 * time.Second

// damage is the first damaged object that the API server itself has read during its start. The nil damage is never found.
type damage struct {
	mu          sync.Mutex
	over        bool // the server is ready
	key         string
	err         error
	first, last time.Time
}

// notice takes note of an error, unless a client caused it by its request.
func (d *damage) notice(ctx context.Context, key string, err error) {
	if d == nil {
		return
	}
	if u, ok := request.UserFrom(ctx); ok && u.GetName() != user.APIServerUser {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.over:
	case d.err == nil:
		d.key, d.err, d.first, d.last = key, err, time.Now(), time.Now()
	case d.key == key:
		d.last = time.Now()
	}
}

// found returns the error of the damaged object; nil if there is none.
func (d *damage) found() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

// lasting returns the error of the damaged object if the API server goes on reading it, so that it cannot become ready.
func (d *damage) lasting() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last.Sub(d.first) < damageLasts {
		return nil
	}
	return d.err
}

// ignore ends the start.
func (d *damage) ignore() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = true
}
