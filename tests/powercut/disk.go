package powercut

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Disk is a file system (FUSE) that records each change and each sync in a journal, in the order in which they happened,
// and fails on demand. It sees what every process does to its files, whether through libc or not; the preloaded library
// of Recorded sees libc's callers alone.
//
// The methods may be called at any time, from any goroutine.
type Disk struct {
	mu      sync.Mutex // held while something is done and recorded, so that nothing comes between the two
	journal *os.File
	ids     map[uint64]string // by inode: the name of a file's content in the journal
	next    int
	// writes and syncs are the errors that changes and syncs fail with; 0 if they work.
	writes, syncs syscall.Errno
	cannot        error // the journal has a hole since then
}

// unmountWithin is how long a Disk may be in use after the end of its processes.
const unmountWithin = 10 * time.Second

// Mount makes the directory dir a Disk until the test ends, and skips the test where no file system can be mounted. The
// processes that use it have to have ended by then. The test's own process must map none of its files: a page fault
// would wait for a file system that cannot run meanwhile.
func Mount(t *testing.T, dir, journal string) *Disk {
	t.Helper()
	if _, err := os.Stat("/dev/fuse"); err != nil || os.Geteuid() != 0 {
		t.Skip("needs FUSE and root")
	}
	f, err := os.OpenFile(journal, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	d := &Disk{journal: f, ids: map[uint64]string{}}
	behind := t.TempDir()
	var st syscall.Stat_t
	if err := syscall.Stat(behind, &st); err != nil {
		t.Fatal(err)
	}
	root := &fs.LoopbackRoot{Path: behind, Dev: st.Dev}
	top := &node{LoopbackNode: fs.LoopbackNode{RootData: root}, disk: d}
	root.RootNode = top
	never := time.Duration(0) // nothing is cached but content
	server, err := fs.Mount(dir, top, &fs.Options{
		EntryTimeout: &never, AttrTimeout: &never, NegativeTimeout: &never,
		MountOptions: fuse.MountOptions{DirectMountStrict: true, FsName: "powercut", Name: "powercut", MaxWrite: fuse.MAX_KERNEL_WRITE},
	})
	if err != nil {
		t.Fatalf("mounting a file system that records: %v", err)
	}
	t.Cleanup(func() {
		// A process that another test is just starting may have inherited a file for a moment.
		err := server.Unmount()
		for end := time.Now().Add(unmountWithin); err != nil && time.Now().Before(end); err = server.Unmount() {
			time.Sleep(20 * time.Millisecond)
		}
		if err != nil {
			t.Errorf("unmounting the file system that records: %v", err)
			_ = syscall.Unmount(dir, syscall.MNT_DETACH) // the error has been told
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.cannot != nil {
			t.Errorf("the journal is not whole: %v", d.cannot)
		}
		_ = f.Close() // it has been read
	})
	return d
}

// FailWrites makes every further change fail with the error, as on a disk that has become read-only or broken; 0 ends
// that.
func (d *Disk) FailWrites(errno syscall.Errno) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writes = errno
}

// FailSyncs makes every further sync fail with the error; 0 ends that.
func (d *Disk) FailSyncs(errno syscall.Errno) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.syncs = errno
}

// change does something that the disk may refuse, and records it if it has worked.
func (d *Disk) change(do func() (Op, syscall.Errno)) syscall.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.writes != 0 {
		return d.writes
	}
	o, errno := do()
	if errno == 0 && o.What != 0 {
		d.record(o)
	}
	return errno
}

// sync records that a file is on the disk. Nothing is synced beneath: that is for Files to say.
func (d *Disk) sync(id string) syscall.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.syncs != 0 {
		return d.syncs
	}
	d.record(Op{What: 'S', File: id})
	return 0
}

// record appends to the journal. The caller holds mu.
func (d *Disk) record(o Op) {
	raw := make([]byte, 0, 14+len(o.File)+len(o.Data))
	raw = append(raw, o.What, uint8(len(o.File)))
	raw = binary.LittleEndian.AppendUint64(raw, uint64(o.At))
	raw = binary.LittleEndian.AppendUint32(raw, uint32(len(o.Data)))
	raw = append(append(raw, o.File...), o.Data...)
	if len(o.File) > 255 {
		d.cannot = fmt.Errorf("the path %s is too long for it", o.File)
	} else if _, err := d.journal.Write(raw); err != nil {
		d.cannot = err
	}
}

// content returns what the journal calls the content of an inode. The caller holds mu.
func (d *Disk) content(inode uint64, created bool) string {
	if created || d.ids[inode] == "" { // the number of one that has gone may be used again
		d.next++
		d.ids[inode] = strconv.Itoa(d.next)
	}
	return d.ids[inode]
}

// node is a file or folder.
type node struct {
	fs.LoopbackNode
	disk *Disk
}

// WrapChild implements fs.NodeWrapChilder.
func (n *node) WrapChild(context.Context, fs.InodeEmbedder) fs.InodeEmbedder {
	return &node{LoopbackNode: fs.LoopbackNode{RootData: n.RootData}, disk: n.disk}
}

// at returns the path of something in a folder, from the top of the disk.
func (n *node) at(name string) string {
	if folder := n.Path(n.Root()); folder != "" {
		return folder + "/" + name
	}
	return name
}

// Create implements fs.NodeCreater.
func (n *node) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (inode *fs.Inode, h fs.FileHandle, fuseFlags uint32, errno syscall.Errno) {
	errno = n.disk.change(func() (Op, syscall.Errno) {
		var handle fs.FileHandle
		inode, handle, fuseFlags, errno = n.LoopbackNode.Create(ctx, name, flags, mode, out)
		if errno != 0 {
			return Op{}, errno
		}
		id := n.disk.content(out.Ino, true)
		h = &file{LoopbackFile: handle.(*fs.LoopbackFile), disk: n.disk, id: id}
		number, _ := strconv.ParseInt(id, 10, 64) // it was made of one
		return Op{What: 'C', File: n.at(name), At: number}, 0
	})
	return inode, h, fuseFlags, errno
}

// Open implements fs.NodeOpener.
func (n *node) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	handle, fuseFlags, errno := n.LoopbackNode.Open(ctx, flags&^syscall.O_TRUNC)
	if errno != 0 {
		return nil, 0, errno
	}
	f := &file{LoopbackFile: handle.(*fs.LoopbackFile), disk: n.disk}
	inode, _, errno := f.stat(ctx)
	if errno != 0 {
		return nil, 0, errno
	}
	n.disk.mu.Lock()
	f.id = n.disk.content(inode, false)
	n.disk.mu.Unlock()
	if flags&syscall.O_TRUNC != 0 {
		in := &fuse.SetAttrIn{SetAttrInCommon: fuse.SetAttrInCommon{Valid: fuse.FATTR_SIZE}}
		if errno := f.Setattr(ctx, in, &fuse.AttrOut{}); errno != 0 {
			return nil, 0, errno
		}
	}
	return f, fuseFlags, 0
}

// Setattr implements fs.NodeSetattrer.
func (n *node) Setattr(ctx context.Context, h fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	size, resized := in.GetSize()
	if _, opened := h.(*file); opened || !resized {
		return n.LoopbackNode.Setattr(ctx, h, in, out)
	}
	return n.disk.change(func() (Op, syscall.Errno) {
		errno := n.LoopbackNode.Setattr(ctx, nil, in, out)
		return Op{What: 'T', File: n.disk.content(out.Ino, false), At: int64(size)}, errno
	})
}

// Fsync implements fs.NodeFsyncer, for folders and for files that are open.
func (n *node) Fsync(ctx context.Context, h fs.FileHandle, flags uint32) syscall.Errno {
	if f, ok := h.(*file); ok {
		return f.Fsync(ctx, flags)
	}
	return n.disk.sync("/")
}

// Mkdir implements fs.NodeMkdirer.
func (n *node) Mkdir(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (inode *fs.Inode, errno syscall.Errno) {
	errno = n.disk.change(func() (Op, syscall.Errno) {
		inode, errno = n.LoopbackNode.Mkdir(ctx, name, mode, out)
		return Op{What: 'D', File: n.at(name)}, errno
	})
	return inode, errno
}

// Unlink implements fs.NodeUnlinker.
func (n *node) Unlink(ctx context.Context, name string) syscall.Errno {
	return n.disk.change(func() (Op, syscall.Errno) {
		return Op{What: 'U', File: n.at(name)}, n.LoopbackNode.Unlink(ctx, name)
	})
}

// Rmdir implements fs.NodeRmdirer.
func (n *node) Rmdir(ctx context.Context, name string) syscall.Errno {
	return n.disk.change(func() (Op, syscall.Errno) {
		return Op{What: 'U', File: n.at(name)}, n.LoopbackNode.Rmdir(ctx, name)
	})
}

// Rename implements fs.NodeRenamer.
func (n *node) Rename(ctx context.Context, name string, parent fs.InodeEmbedder, to string, flags uint32) syscall.Errno {
	if flags&^unix.RENAME_NOREPLACE != 0 {
		return syscall.EINVAL // nobody has exchanged two files so far
	}
	return n.disk.change(func() (Op, syscall.Errno) {
		o := Op{What: 'R', File: n.at(name), Data: []byte(parent.(*node).at(to))}
		return o, n.LoopbackNode.Rename(ctx, name, parent, to, flags)
	})
}

// Link implements fs.NodeLinker. Nothing that is tested makes links, and Files knows none.
func (n *node) Link(context.Context, fs.InodeEmbedder, string, *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	return nil, syscall.EPERM
}

// Symlink implements fs.NodeSymlinker, as Link.
func (n *node) Symlink(context.Context, string, string, *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	return nil, syscall.EPERM
}

// CopyFileRange implements fs.NodeCopyFileRanger: whoever wants that copies by reading and writing.
func (n *node) CopyFileRange(context.Context, fs.FileHandle, uint64, *fs.Inode, fs.FileHandle, uint64, uint64, uint64) (uint32, syscall.Errno) {
	return 0, syscall.EOPNOTSUPP
}

// file is an open file.
type file struct {
	*fs.LoopbackFile
	disk *Disk
	id   string // in the journal
}

// PassthroughFd implements fs.FilePassthroughFder: the kernel is to write through here.
func (f *file) PassthroughFd() (int, bool) { return 0, false }

func (f *file) stat(ctx context.Context) (inode, size uint64, errno syscall.Errno) {
	var out fuse.AttrOut
	errno = f.Getattr(ctx, &out)
	return out.Ino, out.Size, errno
}

// Write implements fs.FileWriter.
func (f *file) Write(ctx context.Context, data []byte, at int64) (n uint32, errno syscall.Errno) {
	errno = f.disk.change(func() (Op, syscall.Errno) {
		n, errno = f.LoopbackFile.Write(ctx, data, at)
		return Op{What: 'W', File: f.id, At: at, Data: data[:n]}, errno
	})
	return n, errno
}

// Fsync implements fs.FileFsyncer.
func (f *file) Fsync(context.Context, uint32) syscall.Errno { return f.disk.sync(f.id) }

// Setattr implements fs.FileSetattrer.
func (f *file) Setattr(ctx context.Context, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	size, resized := in.GetSize()
	if !resized {
		return f.LoopbackFile.Setattr(ctx, in, out)
	}
	return f.disk.change(func() (Op, syscall.Errno) {
		return Op{What: 'T', File: f.id, At: int64(size)}, f.LoopbackFile.Setattr(ctx, in, out)
	})
}

// Allocate implements fs.FileAllocater. It is a change of the size, or none.
func (f *file) Allocate(ctx context.Context, at, n uint64, mode uint32) syscall.Errno {
	if mode&^unix.FALLOC_FL_KEEP_SIZE != 0 {
		return syscall.EOPNOTSUPP
	}
	return f.disk.change(func() (Op, syscall.Errno) {
		_, before, errno := f.stat(ctx)
		if errno == 0 {
			errno = f.LoopbackFile.Allocate(ctx, at, n, mode)
		}
		if errno != 0 || mode != 0 || at+n <= before {
			return Op{}, errno
		}
		return Op{What: 'T', File: f.id, At: int64(at + n)}, 0
	})
}
