package pki

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/gofrs/flock"
)

// lockRetry is how soon after a vain attempt Lock tries again.
const lockRetry = 20 * time.Millisecond

// Lock waits until nobody else, in this process or another, holds dir, and returns
// what gives it back; to call that twice does no harm. The lock is on the directory
// itself, which must exist: there is no file to make or to leave behind, so that it
// can be taken on a read-only file system as well. It ends with the process.
func Lock(ctx context.Context, dir string) (unlock func(), err error) {
	l := flock.New(dir, flock.SetFlag(os.O_RDONLY))
	if _, err := l.TryLockContext(ctx, lockRetry); err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("waiting for another reap that is at the certificates in %s: %w", dir, context.Cause(ctx))
		}
		return nil, fmt.Errorf("locking the certificates: %w: run this as the user that owns %s", err, dir)
	}
	return func() { _ = l.Unlock() }, nil // ends with the process at the latest
}
