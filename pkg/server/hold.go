package server

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/util/wait"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/reap-dev/reap/pkg/datastore"
	"github.com/reap-dev/reap/pkg/gc/pause"
)

// restored is the content of the file that a restore leaves for the next start.
type restored struct {
	// Made is when the snapshot was made, At is when it was restored.
	Made time.Time `json:"made"`
	At   time.Time `json:"at"`
	// Lost is how many revisions a store lacks that a server goes on with, and Found the last one that it had; 0 after a restore.
	Lost  int64 `json:"lost,omitempty"`
	Found int64 `json:"found,omitempty"`
}

// cause says what has happened to the store.
func (r restored) cause() string {
	if r.Lost > 0 {
		return fmt.Sprintf("the datastore lost at least %d revisions behind revision %d", r.Lost, r.Found)
	}
	return "restored from the snapshot of " + r.Made.UTC().Format(time.RFC3339)
}

func restoredFile(dataDir string) string { return filepath.Join(dataDir, "restored.json") }

// holdAfterRestore pauses the collector and holds the controllers that delete objects if the datastore has just been
// restored. It must return before any of them runs. It retries until ctx is cancelled.
func (w *workload) holdAfterRestore(ctx context.Context) error {
	if w.cfg.DataDir == "" {
		return nil // reap restores no store of others
	}
	path := restoredFile(w.cfg.DataDir)
	var r restored
	found, err := readRecord(path, &r)
	if err != nil {
		return fmt.Errorf("looking whether the datastore was restored: %w", err)
	}
	if !found {
		return nil
	}
	log := logrus.WithField("snapshot", r.Made)
	if r.Lost > 0 {
		log = logrus.WithFields(logrus.Fields{"found": r.Found, "missing": r.Lost})
	}
	if w.cfg.GC.AfterRestore == "run" && r.Lost > 0 {
		log.Warn("the datastore lacks writes that were acknowledged; the collector runs at once, as --gc-after-restore=run asks for")
		return removeRestored(path)
	}
	if w.cfg.GC.AfterRestore == "run" {
		log.Warn("the datastore was restored from a snapshot; the collector runs at once, as --gc-after-restore=run asks for")
		return removeRestored(path)
	}
	maps, err := typedcorev1.NewForConfig(w.api.OwnConfig())
	if err != nil {
		return err
	}
	reason := r.cause() + "; the controllers that delete are held too; see with 'reap lint -A' what would be collected, then run 'reap resume'"
	err = wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		_, _, err := pause.Hold(ctx, maps, "reap server", reason, time.Now())
		if err == nil && w.cfg.DatastoreEndpoint == "" {
			// The hold is on the disk before the record goes: with --sqlite-synchronous=normal a power cut may take the last writes.
			err = datastore.SyncSQLite(ctx, w.cfg.DataDir)
		}
		if err != nil {
			log.WithError(err).Warn("cannot hold the collector after the restore; will retry")
		}
		return err == nil, nil
	})
	if err != nil {
		return nil // ctx was cancelled; the next start tries again
	}
	if r.Lost > 0 {
		log.Warn("the datastore lacks writes that were acknowledged: the collector and the controllers that delete are held; " +
			"see with 'reap lint -A' what would be collected, then run 'reap resume'")
		return removeRestored(path)
	}
	log.Warn("the datastore was restored from a snapshot: the collector and the controllers that delete are held; " +
		"see with 'reap lint -A' what would be collected, then run 'reap resume'")
	return removeRestored(path)
}

func removeRestored(path string) error {
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("noting that the restore is complete: %w", err)
	}
	return nil
}

// released returns a channel and a function. The function waits until verified is closed, if it is not nil, and then watches the pause. It
// closes the channel once nothing holds the controllers that delete objects. It returns then, or when ctx is cancelled.
func released(config *rest.Config, verified <-chan struct{}) (free chan struct{}, watch func(ctx context.Context), err error) {
	maps, err := typedcorev1.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	free = make(chan struct{})
	return free, func(ctx context.Context) { awaitRelease(ctx, maps, verified, free) }, nil
}

// awaitRelease closes free when verified is closed, or nil, and the hold has ended, or there is none.
func awaitRelease(ctx context.Context, maps typedcorev1.ConfigMapsGetter, verified <-chan struct{}, free chan<- struct{}) {
	if verified != nil {
		select {
		case <-verified:
		case <-ctx.Done():
			return
		}
	}
	log := logrus.WithField("component", "controllers")
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	held, done := false, false // one call at a time
	saw := func(s pause.State) {
		switch {
		case done:
		case s.Held && !held:
			held = true
			log.WithField("reason", s.Reason).Warn("the controllers that delete are held until somebody runs reap resume")
		case !s.Held:
			done = true
			if held {
				log.Info("the controllers that delete are released")
			}
			close(free)
			stop()
		}
	}
	pause.Watch(ctx, maps, saw, func(err error) {
		log.WithError(err).Warn("cannot read whether the controllers that delete are held; they wait until that is known")
	})
}
