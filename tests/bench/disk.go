package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// slowDisk is a file system (FUSE) on which each sync takes a given time at least, one after the other, as on a slow card.
type slowDisk struct {
	fs.LoopbackNode
	syncs *syncs
}

// syncs is what a slow disk does one after the other.
type syncs struct {
	turn  sync.Mutex
	takes time.Duration
	done  atomic.Int64
}

// mountSlowDisk makes a directory below dir a slow disk, until unmount.
func mountSlowDisk(dir string, takes time.Duration) (path string, s *syncs, unmount func() error, err error) {
	path, behind := filepath.Join(dir, "slow"), filepath.Join(dir, "behind")
	for _, d := range []string{path, behind} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return "", nil, nil, err
		}
	}
	var st syscall.Stat_t
	if err := syscall.Stat(behind, &st); err != nil {
		return "", nil, nil, err
	}
	root := &fs.LoopbackRoot{Path: behind, Dev: st.Dev}
	top := &slowDisk{LoopbackNode: fs.LoopbackNode{RootData: root}, syncs: &syncs{takes: takes}}
	root.RootNode = top
	cached := time.Second // nobody else changes what is beneath
	server, err := fs.Mount(path, top, &fs.Options{
		EntryTimeout: &cached, AttrTimeout: &cached,
		MountOptions: fuse.MountOptions{DirectMountStrict: true, FsName: "slow", Name: "slow", MaxWrite: fuse.MAX_KERNEL_WRITE},
	})
	if err != nil {
		return "", nil, nil, fmt.Errorf("mounting a slow disk, for which this has to run as root on Linux with FUSE: %w", err)
	}
	return path, top.syncs, server.Unmount, nil
}

// WrapChild implements fs.NodeWrapChilder.
func (d *slowDisk) WrapChild(context.Context, fs.InodeEmbedder) fs.InodeEmbedder {
	return &slowDisk{LoopbackNode: fs.LoopbackNode{RootData: d.RootData}, syncs: d.syncs}
}

// Fsync implements fs.NodeFsyncer.
func (d *slowDisk) Fsync(ctx context.Context, h fs.FileHandle, flags uint32) syscall.Errno {
	d.syncs.turn.Lock()
	defer d.syncs.turn.Unlock()
	until := time.Now().Add(d.syncs.takes)
	var errno syscall.Errno
	if f, ok := h.(fs.FileFsyncer); ok { // a folder is not synced beneath
		errno = f.Fsync(ctx, flags)
	}
	time.Sleep(time.Until(until))
	d.syncs.done.Add(1)
	return errno
}

// slowSyncs compares cascades with each durability on a slow disk. Each has a store of its own, and they
// take turns.
func (b *bench) slowSyncs(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp(b.dir, "disk-")
	if err != nil {
		return err
	}
	slow, disk, unmount, err := mountSlowDisk(dir, b.sync)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unmount()) }()
	cases := []struct{ name, datastore, durability string }{
		{"SQLite, normal", "", "normal"}, {"SQLite, full", "", "full"}, {"etcd", "etcd", "full"},
	}
	spans, synced := map[string][]span{}, map[string]int64{}
	sh := shape{kind: configMaps, items: flat, policy: metav1.DeletePropagationBackground}
	datastore := b.datastore
	defer func() { b.datastore = datastore }()
	for range b.repeat {
		for i, c := range cases {
			b.datastore = c.datastore
			data := filepath.Join(slow, fmt.Sprintf("data-%d", i))
			err := b.with(ctx, data, []string{"--sqlite-synchronous", c.durability}, func(s *server) error {
				if _, _, err := b.cascade(ctx, s, sh, warmUp, own); err != nil {
					return err
				}
				before := disk.done.Load()
				sp, _, err := b.cascade(ctx, s, sh, b.objects, own)
				if err == nil {
					say("  %s: %.0f objects/s", c.name, sp.rate())
					synced[c.name] += disk.done.Load() - before // those of the creations too
					spans[c.name] = append(spans[c.name], sp)
				}
				return err
			})
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
		}
	}
	for _, c := range cases {
		m := median(spans[c.name])
		b.report.add("slow-syncs", fmt.Sprintf("%s, %d objects, %s a sync", c.name, m.objects, b.sync), m.rate(), "objects/s", nil)
		b.report.add("slow-syncs", c.name+", to create and to delete", float64(synced[c.name])/float64(b.repeat*m.objects), "syncs/object", nil)
	}
	full, normal := median(spans["SQLite, full"]), median(spans["SQLite, normal"])
	b.report.add("slow-syncs", "SQLite, full : normal", full.rate()/normal.rate(), "×", atLeast(0.5))
	return nil
}
