package server

import (
	"context"

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
	if err := checkFormat(dataDir); err != nil {
		return datastore.Compacted{}, err
	}
	return datastore.CompactSQLite(ctx, dataDir, progress)
}
