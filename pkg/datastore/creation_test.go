package datastore

import (
	"context"
	"testing"

	"github.com/k3s-io/kine/pkg/logstructured"
	"github.com/k3s-io/kine/pkg/server"
)

// compacting is a log with a deleted key, whose deletion is compacted when somebody has run into it.
type compacting struct {
	logstructured.Log
	again int // how often that happens
	rows  int64
}

func (l *compacting) Append(ctx context.Context, _ *server.Event) (int64, error) {
	if l.again > 0 {
		l.again--
		appended(ctx, 0)
		return 0, nil
	}
	l.rows++
	appended(ctx, 100+l.rows)
	return 100 + l.rows, nil
}

func (*compacting) List(context.Context, string, string, int64, int64, bool, bool) (server.EventBatch, error) {
	return server.EventBatch{CurrentRev: 100}, nil
}

func (*compacting) CurrentRevision(context.Context) (int64, error) { return 100, nil }

// TestCreationDuringACompactionIsStored: what is acknowledged is there.
func TestCreationDuringACompactionIsStored(t *testing.T) {
	for again, want := range []int64{101, 101, 101, 0} {
		l := &compacting{again: again}
		b := &backend{LogStructured: logstructured.New(l), log: l}
		revision, err := b.Create(t.Context(), "/key", nil, 0)
		if revision != want || (err == nil) != (l.rows == 1) {
			t.Errorf("after %d compactions: revision %d, %d rows, %v", again, revision, l.rows, err)
		}
	}
}
