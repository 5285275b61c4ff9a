package datastore

import (
	"context"
	"runtime"

	"golang.org/x/sys/unix"
)

// Verify reads all of a running store that has its files in the data directory and says what is damaged: whether the index finds each
// row, whether each value decodes, and whether its key names its object. It changes nothing and holds up no write. Damage is no
// error. progress is called with the rows read and those that there are. known is false for a database elsewhere, which is not read.
//
// Rows that are written meanwhile may be left out: this process has written them.
//
// After damage nothing is compacted until a check has found none: a damaged row may say that the newest value of a key is an old one, and
// once that is gone, nothing would tell that it was there.
func (s *Store) Verify(ctx context.Context, progress func(done, all int64)) (c Checked, known bool, err error) {
	if s.verify == nil {
		return Checked{}, false, nil
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		lowPriority()
		c, err = s.verify(ctx, progress)
	}()
	<-done
	switch {
	case err != nil: // nothing is known
	case len(c.Problems) > 0:
		s.doubtful.Store(true)
	default:
		s.doubtful.Store(false)
	}
	return c, true, err
}

// lowPriority lets other threads have the processor and the disk first. It is for a goroutine that ends soon: its thread ends with it,
// since only root could raise the priority again.
func lowPriority() {
	runtime.LockOSThread()
	const nice, ofThread, idle = 10, 1, 3 << 13 // ioprio_set(2): IOPRIO_WHO_PROCESS, IOPRIO_CLASS_IDLE
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, nice)
	_, _, _ = unix.Syscall(unix.SYS_IOPRIO_SET, ofThread, 0, idle) // without it the check is only less polite
}
