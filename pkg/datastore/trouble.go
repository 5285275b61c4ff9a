package datastore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// trouble is why the database could not be used. Anything else that it answers with, such as a key that exists
// already or a lock that is taken, is none.
type trouble struct {
	kind troubleKind
	dir  string // of the database; empty if that is elsewhere
	err  error
}

type troubleKind int

const (
	// unavailable: a read or a write has failed.
	unavailable troubleKind = iota
	// full: there is no room, or a quota is used up.
	full
	// readOnly: the file system takes no writes.
	readOnly
	// unsynced: a sync has failed. What was written before may be lost, and another sync that succeeds proves
	// nothing: the kernel may have dropped the pages.
	unsynced
)

// SQLite's result codes: https://www.sqlite.org/rescode.html
const (
	sqliteReadOnly   = 8
	sqliteIOErr      = 10
	sqliteCorrupt    = 11
	sqliteFull       = 13
	sqliteCantOpen   = 14
	sqliteNotADB     = 26
	sqliteIOErrFsync = sqliteIOErr | 4<<8
	sqliteIOErrDir   = sqliteIOErr | 5<<8
)

// troubleOf returns what kind of trouble an error of the database is; ok is false if it is none.
func troubleOf(err error) (kind troubleKind, ok bool) {
	code, errno, known := sqliteCode(err)
	if !known {
		return 0, false
	}
	switch primary := code & 0xff; {
	case code == sqliteIOErrFsync || code == sqliteIOErrDir:
		return unsynced, true
	case primary == sqliteFull, errno == syscall.ENOSPC, errno == syscall.EDQUOT:
		return full, true
	case primary == sqliteReadOnly, errno == syscall.EROFS:
		return readOnly, true
	case primary == sqliteIOErr, primary == sqliteCorrupt, primary == sqliteCantOpen, primary == sqliteNotADB:
		return unavailable, true
	}
	return 0, false
}

// isFull reports whether an error says that there is no room.
func isFull(err error) bool {
	if t, ok := errors.AsType[*trouble](err); ok {
		return t.kind == full
	}
	kind, ok := troubleOf(err)
	return ok && kind == full
}

// The marks tell the two answers apart in an error that has passed through gRPC and the API server.
const (
	markFull        = "[datastore: no space] "
	markUnavailable = "[datastore: unavailable] "
)

func (t *trouble) Unwrap() error { return t.err }

func (t *trouble) Error() string {
	switch t.kind {
	case full:
		return fmt.Sprintf(markFull+"the disk of %s is full, or its quota is used up: free space there. "+
			"Reads and deletions go on meanwhile, and other writes as soon as there is room (%v)", t.dir, t.err)
	case readOnly:
		return fmt.Sprintf(markUnavailable+"the file system of %s is read-only: see the kernel's log, and mount it "+
			"writable. Reads go on meanwhile, and writes as soon as it takes them (%v)", t.dir, t.err)
	case unsynced:
		return fmt.Sprintf(markUnavailable+"a sync of %s has failed, so that writes may be lost: nothing more is "+
			"written until the server has started again. See the kernel's log, and the state of the disk (%v)", t.dir, t.err)
	}
	if t.dir == "" {
		return fmt.Sprintf(markUnavailable+"the database could not be used: %v", t.err)
	}
	return fmt.Sprintf(markUnavailable+"the database in %s could not be used: see the kernel's log, and the state of the disk (%v)", t.dir, t.err)
}

// GRPCStatus makes it a status of gRPC. It is not Unavailable, which etcd's client would try again a hundred times.
func (t *trouble) GRPCStatus() *status.Status {
	if t.kind == full {
		return status.New(codes.ResourceExhausted, t.Error())
	}
	return status.New(codes.Internal, t.Error())
}

// Explain finds an error of the datastore in the message of an answer, and returns the HTTP status that it deserves
// and the error without what others put around it; 0 if there is none.
func Explain(message string) (code int, text string) {
	if _, text, found := strings.Cut(message, markFull); found {
		return http.StatusInsufficientStorage, text
	}
	if _, text, found := strings.Cut(message, markUnavailable); found {
		return http.StatusServiceUnavailable, text
	}
	if strings.Contains(message, awayText) { // in the answer to a request that another request needed
		return http.StatusServiceUnavailable, awayText
	}
	if strings.Contains(message, noSpace) {
		return http.StatusInsufficientStorage, "the quota of etcd is used up: delete objects. Reads and deletions go on meanwhile, and other writes as soon as " +
			"it has been compacted and defragmented, which the embedded one does by itself (" + noSpace + ")"
	}
	return 0, ""
}

// explainEtcd is Explain for an etcd elsewhere, whose errors the API server gets from its own client: with the address of a member.
func explainEtcd(message string) (code int, text string) {
	switch {
	case strings.Contains(message, noSpace):
		return http.StatusInsufficientStorage, quotaText
	case strings.Contains(message, "crypt"): // a service of the user's that encrypts is reached in the same way
		return 0, ""
	}
	for _, away := range etcdAway {
		if strings.Contains(message, away) {
			return http.StatusServiceUnavailable, awayText
		}
	}
	return 0, ""
}

// etcdAway are in the errors of etcd's client, and of an etcd, while there is no etcd that could answer.
var etcdAway = []string{
	"rpc error: code = Unavailable", "rpc error: code = DeadlineExceeded", rpctypes.ErrTimeout.Error(), rpctypes.ErrNoLeader.Error(), rpctypes.ErrLeaderChanged.Error(),
}

// noSpace is what etcd itself says.
var noSpace = rpctypes.ErrNoSpace.Error()

// call is one call of the store. kine ignores some errors of the database, and takes others for conflicts; here they
// are kept.
type call struct {
	mu  sync.Mutex
	err error // the first

	// appended is the revision of the row that the call has written; 0 if it has written none. The call's own goroutine sets and reads it.
	appended int64
}

type callKey struct{}

// withCall returns a context whose database errors the call keeps.
func withCall(ctx context.Context) (context.Context, *call) {
	c := &call{}
	return context.WithValue(ctx, callKey{}, c), c
}

// appended is told of a row that has been written during the call of ctx.
func appended(ctx context.Context, revision int64) {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		c.appended = revision
	}
}

// failed is told of an error of the database during the call of ctx, if it is one.
func failed(ctx context.Context, err error) {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.err == nil {
			c.err = err
		}
	}
}

// or returns the error that the call has kept, and otherwise err.
func (c *call) or(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	return err
}
