package datastore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"

	"go.etcd.io/bbolt"
)

// The format of bbolt's files, version 2 (go.etcd.io/bbolt/internal/common), in the byte order of the machine.
const (
	bboltHead     = 16 // bytes in front of a page and of each of its elements: id 8, flags 2, count 2, overflow 4
	bboltBranch   = 1
	bboltLeaf     = 2
	bboltBucket   = 1  // a flag of a leaf's element: its value begins with the page of another tree, or 0
	bboltMeta     = 64 // bytes, of which the last 8 are the checksum of the others
	bboltChecksum = 56
)

// bboltPages reads the pages of a bbolt database by itself. bbolt's own check reads pages that are damaged as if they were not, in a
// goroutine whose panic nobody can take, and so does its start: a page that says that four billion others follow takes all memory.
type bboltPages struct {
	file     io.ReaderAt
	pageSize int64
	seen     []bool // of each page, whether it has been read
}

// wholePages returns an error unless all pages of a database are what they should be.
func wholePages(file io.ReaderAt, tx *bbolt.Tx) error {
	size := int64(tx.DB().Info().PageSize)
	pages := bboltPages{file: file, pageSize: size}
	if err := pages.metas(); err != nil {
		return err
	}
	return wholeTree(file, tx)
}

// wholeTree returns an error unless the pages that a transaction reads are what they should be.
func wholeTree(file io.ReaderAt, tx *bbolt.Tx) error {
	size := int64(tx.DB().Info().PageSize)
	pages := bboltPages{file: file, pageSize: size, seen: make([]bool, tx.Size()/size)}
	return pages.tree(uint64(tx.Cursor().Bucket().Root()), nil, nil)
}

// metas checks the two pages that say where all else is. bbolt reads one of them if the other is damaged.
func (p *bboltPages) metas() error {
	for id := range int64(2) {
		meta := make([]byte, bboltMeta)
		if _, err := p.file.ReadAt(meta, id*p.pageSize+bboltHead); err != nil {
			return fmt.Errorf("page %d: %w", id, err)
		}
		sum := fnv.New64a()
		sum.Write(meta[:bboltChecksum]) // a hash takes everything
		if sum.Sum64() != binary.NativeEndian.Uint64(meta[bboltChecksum:]) {
			return fmt.Errorf("page %d: its checksum is wrong", id)
		}
	}
	return nil
}

// tree reads the page and all below it. Keys are from low up to high; nil for high is no end.
func (p *bboltPages) tree(id uint64, low, high []byte) error {
	data, err := p.page(id)
	if err != nil {
		return err
	}
	all, err := bboltElements(data)
	if err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	if len(all) == 0 && low != nil {
		return fmt.Errorf("page %d: it cannot have 0 elements", id)
	}
	before := low
	for i, e := range all {
		if order := bytes.Compare(before, e.key); order > 0 || order == 0 && i > 0 || high != nil && bytes.Compare(e.key, high) >= 0 {
			return fmt.Errorf("page %d: the key of element %d is not in order", id, i)
		}
		before = e.key
	}
	for i, e := range all {
		switch {
		case e.branch:
			end := high
			if i+1 < len(all) {
				end = all[i+1].key
			}
			if err := p.tree(e.child, e.key, end); err != nil {
				return err
			}
		case e.flags == 0:
		case e.flags != bboltBucket || len(e.value) < bboltHead:
			return fmt.Errorf("page %d: element %d is neither a value nor a tree", id, i)
		case binary.NativeEndian.Uint64(e.value) != 0:
			if err := p.tree(binary.NativeEndian.Uint64(e.value), nil, nil); err != nil {
				return err
			}
		default:
			if err := wholeInline(e.value[bboltHead:]); err != nil {
				return fmt.Errorf("page %d: the tree in element %d: %w", id, i, err)
			}
		}
	}
	return nil
}

// wholeInline checks a small tree: one leaf, which is the value of an element and has its length.
func wholeInline(data []byte) error {
	if len(data) < bboltHead || binary.NativeEndian.Uint16(data[8:]) != bboltLeaf {
		return errors.New("it is no leaf")
	}
	all, err := bboltElements(data)
	if err != nil {
		return err
	}
	end, before := bboltHead, []byte(nil)
	for i, e := range all {
		if e.flags != 0 {
			return fmt.Errorf("its element %d is no value", i)
		}
		if i > 0 && bytes.Compare(before, e.key) >= 0 {
			return fmt.Errorf("the key of its element %d is not in order", i)
		}
		end, before = e.end, e.key
	}
	if end != len(data) {
		return fmt.Errorf("it has %d bytes, and its elements end at %d", len(data), end)
	}
	return nil
}

// bboltElement is an element of a page.
type bboltElement struct {
	branch     bool
	flags      uint32 // of a leaf's
	child      uint64 // of a branch's
	key, value []byte
	end        int // where its bytes end in the page
}

// bboltElements returns the elements of a page. bbolt writes their bytes one after the other behind their heads: a page that says of
// itself that it has fewer elements than were written leaves a gap.
func bboltElements(data []byte) (all []bboltElement, err error) {
	branch, count := binary.NativeEndian.Uint16(data[8:]) == bboltBranch, int(binary.NativeEndian.Uint16(data[10:]))
	next := uint64(bboltHead + bboltHead*count)
	if next > uint64(len(data)) || branch && count == 0 {
		return nil, fmt.Errorf("it cannot have %d elements", count)
	}
	for i := range count {
		at := bboltHead + bboltHead*i
		head := data[at : at+bboltHead]
		flags, pos, keySize, valueSize := binary.NativeEndian.Uint32(head), binary.NativeEndian.Uint32(head[4:]), binary.NativeEndian.Uint32(head[8:]), binary.NativeEndian.Uint32(head[12:])
		e := bboltElement{branch: branch}
		if branch {
			e.child, pos, keySize, valueSize = binary.NativeEndian.Uint64(head[8:]), flags, pos, 0
		} else {
			e.flags = flags
		}
		begin := uint64(at) + uint64(pos)
		middle := begin + uint64(keySize)
		end := middle + uint64(valueSize)
		switch {
		case end > uint64(len(data)):
			return nil, fmt.Errorf("element %d is not in it", i)
		case begin != next:
			return nil, fmt.Errorf("element %d does not follow the one before it", i)
		}
		e.key, e.value, e.end, next = data[begin:middle], data[middle:end], int(end), end
		all = append(all, e)
	}
	return all, nil
}

// page returns a branch or a leaf with the pages that it goes on for.
func (p *bboltPages) page(id uint64) ([]byte, error) {
	if id < 2 || id >= uint64(len(p.seen)) {
		return nil, fmt.Errorf("page %d: there is none", id)
	}
	head := make([]byte, bboltHead)
	if _, err := p.file.ReadAt(head, int64(id)*p.pageSize); err != nil {
		return nil, fmt.Errorf("page %d: %w", id, err)
	}
	flags, more := binary.NativeEndian.Uint16(head[8:]), uint64(binary.NativeEndian.Uint32(head[12:]))
	switch {
	case binary.NativeEndian.Uint64(head) != id:
		return nil, fmt.Errorf("page %d: it says that it is page %d", id, binary.NativeEndian.Uint64(head))
	case flags != bboltBranch && flags != bboltLeaf:
		return nil, fmt.Errorf("page %d: it is neither a branch nor a leaf", id)
	case id+more >= uint64(len(p.seen)):
		return nil, fmt.Errorf("page %d: it goes on for %d more, behind the end of the database", id, more)
	}
	for i := id; i <= id+more; i++ {
		if p.seen[i] {
			return nil, fmt.Errorf("page %d: it has two places", i)
		}
		p.seen[i] = true
	}
	data := make([]byte, int64(1+more)*p.pageSize)
	if _, err := p.file.ReadAt(data, int64(id)*p.pageSize); err != nil {
		return nil, fmt.Errorf("page %d: %w", id, err)
	}
	return data, nil
}
