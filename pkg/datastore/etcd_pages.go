package datastore

import (
	"bytes"
	"encoding/binary"
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
	pages := bboltPages{file: file, pageSize: size, seen: make([]bool, tx.Size()/size)}
	if err := pages.metas(); err != nil {
		return err
	}
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
	branch, count := data[8] == bboltBranch, int(binary.NativeEndian.Uint16(data[10:]))
	if bboltHead+bboltHead*count > len(data) || branch && count == 0 {
		return fmt.Errorf("page %d: it cannot have %d elements", id, count)
	}
	type child struct {
		id  uint64
		key []byte
	}
	var children []child
	var trees []uint64
	before := low
	for i := range count {
		at := bboltHead + bboltHead*i
		e := data[at : at+bboltHead]
		flags, pos, keySize, valueSize := binary.NativeEndian.Uint32(e), binary.NativeEndian.Uint32(e[4:]), binary.NativeEndian.Uint32(e[8:]), binary.NativeEndian.Uint32(e[12:])
		if branch {
			pos, keySize, valueSize = flags, pos, 0
		}
		begin := uint64(at) + uint64(pos)
		middle := begin + uint64(keySize)
		end := middle + uint64(valueSize)
		if end > uint64(len(data)) {
			return fmt.Errorf("page %d: element %d is not in it", id, i)
		}
		key, value := data[begin:middle], data[middle:end]
		if order := bytes.Compare(before, key); order > 0 || order == 0 && i > 0 || high != nil && bytes.Compare(key, high) >= 0 {
			return fmt.Errorf("page %d: the key of element %d is not in order", id, i)
		}
		before = key
		switch {
		case branch:
			children = append(children, child{binary.NativeEndian.Uint64(e[8:]), key})
		case flags == 0:
		case flags != bboltBucket || len(value) < bboltHead:
			return fmt.Errorf("page %d: element %d is neither a value nor a tree", id, i)
		case binary.NativeEndian.Uint64(value) != 0:
			trees = append(trees, binary.NativeEndian.Uint64(value))
		}
	}
	for i, c := range children {
		end := high
		if i+1 < len(children) {
			end = children[i+1].key
		}
		if err := p.tree(c.id, c.key, end); err != nil {
			return err
		}
	}
	for _, root := range trees {
		if err := p.tree(root, nil, nil); err != nil {
			return err
		}
	}
	return nil
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
