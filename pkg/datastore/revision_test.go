package datastore

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestRevisionOfARead gives consistentRevision the answers that kine can give, one after the other.
func TestRevisionOfARead(t *testing.T) {
	answer := func(revision int64, keys int, more bool) *etcdserverpb.RangeResponse {
		return &etcdserverpb.RangeResponse{Header: &etcdserverpb.ResponseHeader{Revision: revision}, Kvs: make([]*mvccpb.KeyValue, keys), More: more}
	}
	none := (*etcdserverpb.RangeResponse)(nil) // kine does not know of the revision yet
	for name, c := range map[string]struct {
		request  *etcdserverpb.RangeRequest
		answers  []*etcdserverpb.RangeResponse
		want     *etcdserverpb.RangeResponse
		wantRevs []int64 // that kine was asked for
	}{
		"keys":                 {&etcdserverpb.RangeRequest{}, []*etcdserverpb.RangeResponse{answer(7, 2, false)}, answer(7, 2, false), []int64{0}},
		"at a revision":        {&etcdserverpb.RangeRequest{Revision: 5}, []*etcdserverpb.RangeResponse{answer(7, 0, false)}, answer(7, 0, false), []int64{5}},
		"a page at a revision": {&etcdserverpb.RangeRequest{Revision: 5}, []*etcdserverpb.RangeResponse{answer(7, 1, true)}, answer(7, 1, true), []int64{5}},
		"count":                {&etcdserverpb.RangeRequest{CountOnly: true}, []*etcdserverpb.RangeResponse{answer(7, 0, false)}, answer(7, 0, false), []int64{0}},
		"nothing":              {&etcdserverpb.RangeRequest{}, []*etcdserverpb.RangeResponse{answer(7, 0, false), answer(9, 0, false)}, answer(7, 0, false), []int64{0, 0}},
		"nothing, then keys":   {&etcdserverpb.RangeRequest{}, []*etcdserverpb.RangeResponse{answer(7, 0, false), answer(9, 1, false)}, answer(9, 1, false), []int64{0, 0}},
		"the first page":       {&etcdserverpb.RangeRequest{}, []*etcdserverpb.RangeResponse{answer(7, 1, true), answer(9, 1, true)}, answer(7, 1, true), []int64{0, 7}},
		"a page of what has gone": {
			&etcdserverpb.RangeRequest{}, []*etcdserverpb.RangeResponse{answer(7, 1, true), none, answer(8, 1, true), answer(9, 1, true)}, answer(8, 1, true), []int64{0, 7, 0, 8},
		},
	} {
		var asked []int64
		handler := func(_ context.Context, r any) (any, error) {
			asked = append(asked, r.(*etcdserverpb.RangeRequest).Revision)
			if next := c.answers[len(asked)-1]; next != nil {
				return next, nil
			}
			return nil, status.Error(codes.OutOfRange, "required revision is a future revision")
		}
		got, err := consistentRevision(t.Context(), c.request, nil, handler)
		read, _ := got.(*etcdserverpb.RangeResponse)
		if err != nil || read == nil || read.Header.Revision != c.want.Header.Revision || len(read.Kvs) != len(c.want.Kvs) || read.More != c.want.More {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if fmt.Sprint(asked) != fmt.Sprint(c.wantRevs) {
			t.Errorf("%s: asked at %v, want %v", name, asked, c.wantRevs)
		}
	}
}

// TestLargeObjectsAreTaken: the API server takes objects of a megabyte and a half, and lists many at once.
func TestLargeObjectsAreTaken(t *testing.T) {
	c := open(t)
	large := bytes.Repeat([]byte("x"), 3<<19)
	for i := range 3 {
		key := fmt.Sprintf("/registry/large/%d", i)
		answer, err := c.Txn(t.Context()).If(clientv3.Compare(clientv3.ModRevision(key), "=", 0)).Then(clientv3.OpPut(key, string(large))).Commit()
		if err != nil || !answer.Succeeded {
			t.Fatal(answer, err)
		}
	}
	all, err := c.Get(t.Context(), "/registry/large/", clientv3.WithPrefix())
	if err != nil || len(all.Kvs) != 3 || !bytes.Equal(all.Kvs[2].Value, large) {
		t.Errorf("%d are read back (%v)", len(all.Kvs), err)
	}
}
