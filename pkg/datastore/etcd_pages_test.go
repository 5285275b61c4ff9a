package datastore

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
)

// TestDamagedPagesOfEtcdAreFound changes one thing each on the pages of a database.
func TestDamagedPagesOfEtcdAreFound(t *testing.T) {
	files, _ := stoppedEtcd(t, rand.New(rand.NewPCG(1, 0)))
	whole := files[etcdDatabaseName]
	db, err := bbolt.Open(filepath.Join(placed(t, files), etcdDatabaseName), 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	size := db.Info().PageSize
	var root uint64
	err = db.View(func(tx *bbolt.Tx) error { root = uint64(tx.Cursor().Bucket().Root()); return nil })
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	check := func(raw []byte) (bboltPages, error) {
		p := bboltPages{file: bytes.NewReader(raw), pageSize: int64(size), seen: make([]bool, len(raw)/size)}
		if err := p.metas(); err != nil {
			return p, err
		}
		return p, p.tree(root, nil, nil)
	}
	pages, err := check(whole)
	if err != nil {
		t.Fatalf("without damage: %v", err)
	}
	// first is the first page in use of a kind, with two elements at least.
	first := func(kind uint16) int {
		for id, used := range pages.seen {
			page := whole[id*size:]
			if used && binary.NativeEndian.Uint64(page) == uint64(id) && binary.NativeEndian.Uint16(page[8:]) == kind && binary.NativeEndian.Uint16(page[10:]) > 1 {
				return id
			}
		}
		t.Fatalf("no page is of kind %d", kind)
		return 0
	}
	leaf, branch := first(bboltLeaf), first(bboltBranch)
	for name, c := range map[string]struct {
		page int
		do   func(page []byte)
		want string
	}{
		"the second meta page":    {1, func(page []byte) { page[bboltHead+8]++ }, "checksum is wrong"},
		"another page":            {leaf, func(page []byte) { binary.NativeEndian.PutUint64(page, 3) }, "it says that it is page 3"},
		"no tree":                 {leaf, func(page []byte) { binary.NativeEndian.PutUint16(page[8:], 16) }, "neither a branch nor a leaf"},
		"many elements":           {leaf, func(page []byte) { binary.NativeEndian.PutUint16(page[10:], 1<<15) }, "it cannot have"},
		"a branch without any":    {branch, func(page []byte) { binary.NativeEndian.PutUint16(page[10:], 0) }, "it cannot have"},
		"many pages":              {leaf, func(page []byte) { binary.NativeEndian.PutUint32(page[12:], 1<<31) }, "behind the end of the database"},
		"an element elsewhere":    {leaf, func(page []byte) { binary.NativeEndian.PutUint32(page[bboltHead+4:], 1<<30) }, "is not in it"},
		"a long value":            {leaf, func(page []byte) { binary.NativeEndian.PutUint32(page[bboltHead+12:], 1<<30) }, "is not in it"},
		"fewer elements":          {leaf, func(page []byte) { page[10]-- }, "does not follow"},
		"fewer children":          {branch, func(page []byte) { page[10]-- }, "does not follow"},
		"another kind of element": {leaf, func(page []byte) { binary.NativeEndian.PutUint32(page[bboltHead:], 7) }, "neither a value nor a tree"},
		"keys out of order": {leaf, func(page []byte) {
			page[bboltHead+binary.NativeEndian.Uint32(page[bboltHead+4:])] = 0xff
		}, "is not in order"},
		"a child twice": {branch, func(page []byte) {
			copy(page[2*bboltHead+8:3*bboltHead], page[bboltHead+8:2*bboltHead])
		}, "it has two places"},
		"a child that is not there": {branch, func(page []byte) { binary.NativeEndian.PutUint64(page[bboltHead+8:], 1<<40) }, "there is none"},
		"a child of a higher key": {branch, func(page []byte) {
			first, second := slices.Clone(page[bboltHead+8:2*bboltHead]), page[2*bboltHead+8:3*bboltHead]
			copy(page[bboltHead+8:], second)
			copy(second, first)
		}, "is not in order"},
		"a child of a lower key": {branch, func(page []byte) {
			at := 2 * bboltHead
			pos, length := binary.NativeEndian.Uint32(page[at:]), binary.NativeEndian.Uint32(page[at+4:])
			page[at+int(pos)+int(length)-1]++
		}, "is not in order"},
	} {
		raw := slices.Clone(whole)
		c.do(raw[c.page*size : (c.page+1)*size])
		if _, err := check(raw); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: it finds %v, want %q", name, err, c.want)
		}
	}
}
