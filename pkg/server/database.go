package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/reap-dev/reap/pkg/datastore"
)

// CompactDatabase writes the SQLite database of a data directory anew, without free pages. It returns an error if a
// server uses the data directory.
func CompactDatabase(ctx context.Context, dataDir string, progress func(done, all int64)) (datastore.Compacted, error) {
	dir, err := openDataDir(dataDir)
	if err != nil {
		return datastore.Compacted{}, err
	}
	defer dir.close()
	if err := CheckFormat(dataDir); err != nil {
		return datastore.Compacted{}, err
	}
	if err := settleBefore(dataDir); err != nil {
		return datastore.Compacted{}, err
	}
	return datastore.CompactSQLite(ctx, dataDir, progress)
}

// ReadStore opens the store of a data directory for do, whether a server runs on it or not.
func ReadStore(ctx context.Context, dataDir string, do func(*datastore.Opened) error) error {
	if err := mayBeRead(dataDir); err != nil {
		return err
	}
	dir, err := openDataDir(dataDir)
	served := errors.Is(err, errInUse)
	if err != nil && !served {
		return err
	}
	if !served {
		defer dir.close()
	}
	store, err := datastore.Open(ctx, dataDir, served)
	if err != nil {
		return err
	}
	defer store.Close()
	return do(store)
}

// mayBeRead returns an error unless the data directory has one store, which this build knows, and which no interrupted
// command left half in its place.
func mayBeRead(dataDir string) error {
	exchanging, err := exists(convertingFile(dataDir))
	if err := errors.Join(err, CheckFormat(dataDir), checkRestored(dataDir)); err != nil {
		return err
	}
	if exchanging {
		return fmt.Errorf("a conversion of the datastore in %s was interrupted: run 'reap db convert' again, or start the server", dataDir)
	}
	_, err = datastore.EngineIn(dataDir)
	return err
}

// CheckStore reads all of the store of a data directory and says what is damaged. A server may use an SQLite database
// meanwhile; for an etcd it returns an error then.
func CheckStore(ctx context.Context, dataDir string, progress func(done, all int64)) (datastore.Checked, error) {
	if held, err := datastore.HoldsSQLite(dataDir); err != nil || held {
		return datastore.CheckWholeSQLite(ctx, dataDir, progress)
	}
	if err := mayBeRead(dataDir); err != nil {
		return datastore.Checked{}, err
	}
	dir, err := openDataDir(dataDir)
	if err != nil {
		return datastore.Checked{}, fmt.Errorf("an etcd cannot be checked while a server uses it: %w", err)
	}
	defer dir.close()
	return datastore.CheckWholeEtcd(ctx, dataDir, progress)
}

// StoreStats says what the store of a data directory holds, whether a server runs on it or not.
func StoreStats(ctx context.Context, dataDir string, progress func(done, all int64)) (s datastore.Stats, err error) {
	if held, err := datastore.HoldsEtcd(dataDir); err != nil || !held {
		return datastore.StatsSQLite(ctx, dataDir, progress)
	}
	err = ReadStore(ctx, dataDir, func(o *datastore.Opened) error {
		s, err = datastore.StatsEtcd(ctx, o, progress)
		return err
	})
	return s, err
}
