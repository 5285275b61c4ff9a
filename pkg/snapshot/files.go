package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"github.com/gofrs/flock"
)

// Suffix is the suffix of snapshot files.
const Suffix = ".snapshot"

// names matches files that Save makes. The number grows within the folder, so that the order does not depend on a clock;
// the time is for people.
var names = regexp.MustCompile(`^reap-(\d{5,})-\d{8}T\d{6}Z\.snapshot$`)

// partials matches files that are still being written, or that a killed process has left.
const partials = ".reap-*.partial"

// File is a snapshot in a folder.
type File struct {
	Name string `json:"name"`
	Path string `json:"path"`
	// Bytes is the size of the file.
	Bytes int64 `json:"bytes"`
	Manifest
	// Problem says why the snapshot cannot be used; "" if no problem was found.
	Problem string `json:"problem,omitempty"`

	number int // 0 if Save did not name the file
}

// Save creates a file in a folder and calls write to fill it. It creates the folder if needed. The file gets its name once
// it is complete on the disk. Only its owner can read it.
func Save(dir string, write func(io.Writer) (Manifest, error)) (saved File, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return saved, fmt.Errorf("making the folder for snapshots: %w", err)
	}
	f, lock, err := newPartial(dir)
	if err != nil {
		return saved, err
	}
	defer func() {
		_ = os.Remove(f.Name()) // it has its final name by now, or is not wanted
		_ = lock.Unlock()       // ends with the process at the latest
	}()
	m, err := write(f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return saved, err
	}
	return publish(dir, f.Name(), m)
}

// newPartial creates a file and locks it: removePartials, in this process or another, removes files that are not locked. One
// that was removed before it was locked is given up.
func newPartial(dir string) (*os.File, *flock.Flock, error) {
	for {
		f, err := os.CreateTemp(dir, partials) // mode 0600
		if err != nil {
			return nil, nil, fmt.Errorf("making a file for the snapshot: %w", err)
		}
		lock, err := lockPartial(f)
		if err == nil {
			return f, lock, nil
		}
		_ = f.Close() // nothing was written
		if !errors.Is(err, errRemoved) {
			return nil, nil, errors.Join(fmt.Errorf("locking %s: %w", f.Name(), err), os.Remove(f.Name()))
		}
	}
}

// errRemoved is the error for a file that is no longer the one that its name says, or that its remover has locked.
var errRemoved = errors.New("it has been removed")

func lockPartial(f *os.File) (*flock.Flock, error) {
	lock := flock.New(f.Name(), flock.SetFlag(os.O_RDWR)) // creates no file, which would take the place of a removed one
	locked, err := lock.TryLock()
	if errors.Is(err, fs.ErrNotExist) || err == nil && !locked {
		return nil, errRemoved
	}
	if err != nil {
		return nil, err
	}
	if is, err := sameFile(f); err != nil || !is {
		return nil, errors.Join(cmp.Or(err, errRemoved), lock.Unlock())
	}
	return lock, nil
}

// sameFile reports whether an open file still has its name.
func sameFile(f *os.File) (bool, error) {
	open, err := f.Stat()
	if err != nil {
		return false, err
	}
	named, err := os.Stat(f.Name())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(open, named), err
}

// publish renames a complete file to the next free name.
func publish(dir, partial string, m Manifest) (File, error) {
	for {
		all, err := list(dir)
		if err != nil {
			return File{}, err
		}
		number := 1
		for _, s := range all {
			number = max(number, s.number+1)
		}
		name := fmt.Sprintf("reap-%05d-%s%s", number, m.Made.UTC().Format("20060102T150405Z"), Suffix)
		path := filepath.Join(dir, name)
		err = os.Link(partial, path) // unlike a rename, a link does not replace a file
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrPermission) { // a FAT file system has no links
			err = os.Rename(partial, path)
		}
		if err != nil {
			return File{}, fmt.Errorf("naming the snapshot: %w", err)
		}
		info, err := os.Stat(path)
		if err != nil {
			return File{}, err
		}
		return File{Name: name, Path: path, Bytes: info.Size(), Manifest: m, number: number}, syncDir(dir)
	}
}

// syncDir makes the names in a folder last, where its file system knows how.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	_ = d.Sync() // some file systems refuse
	return d.Close()
}

// list returns the snapshots in a folder without reading them, in the order of their numbers. Files that Save did not
// name come first.
func list(dir string) (all []File, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("looking for snapshots: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() || filepath.Ext(e.Name()) != Suffix {
			continue
		}
		f := File{Name: e.Name(), Path: filepath.Join(dir, e.Name())}
		if n := names.FindStringSubmatch(e.Name()); n != nil {
			f.number, _ = strconv.Atoi(n[1]) // digits; one too large counts as not named by Save
		}
		all = append(all, f)
	}
	slices.SortStableFunc(all, func(a, b File) int { return cmp.Compare(a.number, b.number) })
	return all, nil
}

// List returns the snapshots in a folder with their manifests, the newest last. With check it reads them completely and
// finds damaged ones. progress, if not nil, is called with the number of files read so far and of all files. Cancelling ctx
// ends the reading, also within a file.
func List(ctx context.Context, dir string, check bool, progress func(done, all int)) ([]File, error) {
	all, err := list(dir)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if progress != nil {
			progress(i, len(all))
		}
		err := all[i].look(ctx, check)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			all[i].Problem = err.Error()
		}
	}
	return all, nil
}

// cancellable is a reader that fails once ctx is cancelled.
type cancellable struct {
	ctx context.Context
	io.Reader
}

func (c cancellable) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.Reader.Read(p)
}

// look reads the manifest, or with check the whole snapshot.
func (f *File) look(ctx context.Context, check bool) (err error) {
	in, err := os.Open(f.Path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	f.Bytes = info.Size()
	if check {
		f.Manifest, err = Read(cancellable{ctx, in}, Visitor{})
	} else {
		f.Manifest, err = Head(in)
	}
	return err
}

// Prune removes the snapshots that Save has made in a folder, except the newest, and the partial files of killed
// processes. Snapshots whose manifest cannot be read are kept and not counted. Prune returns the removed snapshots; with
// dry it removes nothing and returns those that it would remove.
func Prune(ctx context.Context, dir string, retain int, dry bool) (removed []File, err error) {
	all, err := List(ctx, dir, false, nil)
	if err != nil {
		return nil, err
	}
	whole := slices.DeleteFunc(all, func(f File) bool { return f.number == 0 || f.Problem != "" })
	removed = whole[:max(0, len(whole)-retain)]
	if dry {
		return removed, nil
	}
	for i, f := range removed {
		if err := os.Remove(f.Path); err != nil {
			return removed[:i], fmt.Errorf("removing a snapshot: %w", err)
		}
	}
	return removed, removePartials(dir)
}

func removePartials(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, partials))
	if err != nil {
		return err
	}
	for _, path := range left {
		lock := flock.New(path, flock.SetFlag(os.O_RDWR)) // creates no file
		if locked, err := lock.TryLock(); err != nil || !locked {
			continue // it is being written
		}
		err := os.Remove(path)
		_ = lock.Unlock() // the file has gone
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing a partial snapshot: %w", err)
		}
	}
	return nil
}
