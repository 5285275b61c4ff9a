package snapshot

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/reap-dev/reap/pkg/datastore/dump"
)

// ErrBusy is returned while another snapshot is being made.
var ErrBusy = errors.New("another snapshot is being made; try again when it is done")

// Maker makes snapshots of a running server, one at a time. It may be used concurrently.
type Maker struct {
	Source dump.Source
	// PKI returns the files of the PKI by name.
	PKI func(context.Context) (map[string][]byte, error)
	// Reap is the version of the server.
	Reap string

	busy sync.Mutex
}

// Make writes a snapshot to out. If another snapshot is being made, it returns ErrBusy.
func (m *Maker) Make(ctx context.Context, out io.Writer, withPKI bool) (Manifest, error) {
	if !m.busy.TryLock() {
		return Manifest{}, ErrBusy
	}
	defer m.busy.Unlock()
	c := Contents{Source: m.Source, Reap: m.Reap, Now: time.Now()}
	if withPKI {
		var err error
		if c.PKI, err = m.PKI(ctx); err != nil {
			return Manifest{}, err
		}
	}
	return Write(ctx, out, c)
}
