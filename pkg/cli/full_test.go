package cli

import (
	"context"
	"errors"
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reap-dev/reap/tests/bubble"
)

var errNoRoom = &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInsufficientStorage, Message: "the disk of /d is full"}}

// TestDeletionWaitsForRoom: a DELETE that a datastore without room refuses is sent again, which is said once; another error is not waited for.
func TestDeletionWaitsForRoom(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			answers []error
			sent    int
			told    int
			want    error
		}{
			"room":          {[]error{nil}, 1, 0, nil},
			"room later":    {[]error{errNoRoom, errNoRoom, errNoRoom, nil}, 4, 1, nil},
			"another error": {[]error{errNoRoom, errNotAsked}, 2, 1, errNotAsked},
		} {
			sent, told := 0, 0
			err := untilRoom(t.Context(), func() error { sent++; return c.answers[sent-1] }, func(error) { told++ })
			if !errors.Is(err, c.want) || sent != c.sent || told != c.told {
				t.Errorf("%s: %v after %d DELETEs, told %d times", name, err, sent, told)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := untilRoom(ctx, func() error { return errNoRoom }, func(error) {}); !isFull(err) {
			t.Errorf("after an interrupt: %v", err)
		}
	})
}

// TestNoteOfTheDatastoreIsFound in what /readyz?verbose answers.
func TestNoteOfTheDatastoreIsFound(t *testing.T) {
	for answer, want := range map[string]string{
		"[+]ping ok\n[+]reap-datastore (the disk of /d (vda) is full) ok\nreadyz check passed\n": "the disk of /d (vda) is full",
		"[+]ping ok\n[+]reap-datastore ok\n":                                                     "",
		"[+]reap-gc (cannot list: widgets) ok\nok\n":                                             "",
		"ok": "",
	} {
		if got := storeNote([]byte(answer)); got != want {
			t.Errorf("%q: %q, want %q", answer, got, want)
		}
	}
}
