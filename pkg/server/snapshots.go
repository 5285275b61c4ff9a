package server

import (
	"cmp"
	"context"

	"github.com/sirupsen/logrus"

	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/datastore/dump"
	"github.com/reap-dev/reap/pkg/pki"
	"github.com/reap-dev/reap/pkg/snapshot"
)

// newMaker returns the Maker for snapshots of this server, on demand and scheduled.
func (s *server) newMaker(store dump.Source) *snapshot.Maker {
	return &snapshot.Maker{Source: store, Reap: s.cfg.Version, PKI: func(ctx context.Context) (map[string][]byte, error) {
		unlock, err := pki.Lock(ctx, s.cfg.DataDir)
		if err != nil {
			return nil, err
		}
		defer unlock()
		return pki.Contents(config.PKIDir(s.cfg.DataDir))
	}}
}

func (s *server) schedule() *snapshot.Schedule {
	return &snapshot.Schedule{
		Maker:    s.maker,
		Dir:      cmp.Or(s.cfg.Snapshot.Dir, config.SnapshotDir(s.cfg.DataDir)),
		Interval: s.cfg.Snapshot.Interval,
		Retain:   s.cfg.Snapshot.Retain,
		Log:      logrus.WithField("component", "snapshot"),
	}
}
