package cli

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// fullFirst and fullMost bound the pauses between attempts to delete from a datastore that has no room even for that; they double.
const fullFirst, fullMost = 250 * time.Millisecond, 10 * time.Second

// isFull reports whether a server has refused a write because its datastore has no room.
func isFull(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && status.ErrStatus.Code == http.StatusInsufficientStorage
}

// untilRoom deletes, again and again while the datastore has no room for that, until ctx ends. It tells of the first refusal.
func untilRoom(ctx context.Context, remove func() error, tell func(error)) error {
	err := remove()
	if isFull(err) {
		tell(err)
	}
	for pause := fullFirst; isFull(err); pause = min(2*pause, fullMost) {
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
		err = remove()
	}
	return err
}

// storeNote returns what the note about the datastore in a reap server's /readyz?verbose says; "" if there is none.
func storeNote(answer []byte) string {
	for line := range bytes.Lines(answer) {
		if note, is := bytes.CutPrefix(bytes.TrimSpace(line), []byte("[+]reap-datastore (")); is {
			return string(bytes.TrimSuffix(note, []byte(") ok")))
		}
	}
	return ""
}
