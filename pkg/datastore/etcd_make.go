package datastore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/config"
)

// makeEtcd makes the files of a member in a data directory that has none. They are made in a folder of their own, and get
// their place whole, once etcd has elected itself. If a power cut left a log without its first entries there, etcd would
// take it for that of a member without a cluster, and each start would wait for an election that never comes.
func makeEtcd(ctx context.Context, dir string, c config.ServerConfig, log *etcdLog) error {
	place := filepath.Join(etcdDir(dir), "member")
	if held, err := thereIs(place); err != nil || held {
		return err
	}
	c.DataDir = filepath.Join(etcdDir(dir), "new")
	if err := os.RemoveAll(c.DataDir); err != nil { // of a start that was interrupted
		return err
	}
	member, err := log.newMember(ctx, c)
	if err != nil {
		return err
	}
	member.Start()
	select {
	case <-member.ReadyNotify():
	case <-member.StopNotify():
		err = errors.New("etcd has stopped: see the log")
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	member.Stop()
	if err != nil {
		return err
	}
	if err := syncEtcdNames(c.DataDir); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(c.DataDir, "member"), place); err != nil {
		return err
	}
	return errors.Join(syncFile(etcdDir(dir)), os.Remove(c.DataDir))
}

// syncEtcdNames returns when the names of a member's files are on the disk; dir has its folder member.
func syncEtcdNames(dir string) error {
	for _, d := range []string{filepath.Join(dir, "member", "wal"), filepath.Join(dir, "member", "snap"), filepath.Join(dir, "member"), dir} {
		if err := syncFile(d); err != nil {
			return fmt.Errorf("writing the names in %s to the disk: %w", d, err)
		}
	}
	return nil
}
