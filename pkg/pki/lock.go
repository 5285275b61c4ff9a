package pki

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/gofrs/flock"
)

// lockRetry is the interval between two attempts to lock.
const lockRetry = 20 * time.Millisecond

// Lock locks dir, which must exist, against other holders in this process and in
// others. It waits until the lock is free or ctx is cancelled. unlock may be called
// more than once. The lock is on the directory itself and creates no file, so it also
// works on a read-only file system. It ends with the process.
func Lock(ctx context.Context, dir string) (unlock func(), err error) {
	l := flock.New(dir, flock.SetFlag(os.O_RDONLY))
	if _, err := l.TryLockContext(ctx, lockRetry); err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("waiting for another reap that has locked the certificates in %s: %w", dir, context.Cause(ctx))
		}
		return nil, fmt.Errorf("locking the certificates: %w: run this as the user that owns %s", err, dir)
	}
	return func() { _ = l.Unlock() }, nil // ends with the process at the latest
}
