package histories

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// user is a client that does what API servers do: it writes only what it has read.
type user struct {
	id     int
	client *clientv3.Client
	record *record
	r      *rand.Rand
	known  [keys]entry
}

// act does something at random. Its errors are part of the history.
func (u *user) act(ctx context.Context) {
	in := asked{key: u.r.IntN(keys)}
	in.revision = u.known[in.key].revision
	switch n := u.r.IntN(10); {
	case n < 2:
		in.verb = get
	case n < 3:
		in.verb = list
	case in.revision == 0:
		in.verb = create
	case n < 5:
		in.verb = remove
	default:
		in.verb = update
	}
	if !in.verb.writes() {
		in.revision = 0
	} else if in.verb != remove {
		in.value = u.record.nextValue()
	}
	out, err := u.record.do(u.id, in, func() (answered, error) { return call(ctx, u.client, in) })
	if err != nil {
		in.verb = get // to go on from what there is
		if out, err = u.record.do(u.id, asked{verb: get, key: in.key}, func() (answered, error) { return call(ctx, u.client, asked{verb: get, key: in.key}) }); err != nil {
			return
		}
	}
	switch {
	case in.verb == list:
		u.known = out.shown
	case in.verb == get, !out.done && in.verb != create:
		u.known[in.key] = out.shown[in.key]
	case in.verb == remove:
		u.known[in.key] = entry{}
	case out.done:
		u.known[in.key] = entry{out.revision, in.value}
	default: // it exists: the next list or get says how
	}
}

// call makes an operation's call, in the forms that the API server uses.
func call(ctx context.Context, c *clientv3.Client, in asked) (out answered, err error) {
	key := keyName(in.key)
	if !in.verb.writes() {
		options := []clientv3.OpOption{}
		if in.verb == list {
			key, options = prefix, append(options, clientv3.WithPrefix())
		}
		answer, err := c.Get(ctx, key, options...)
		if err != nil {
			return out, err
		}
		out.revision = answer.Header.Revision
		out.shown, err = entriesOf(answer.Kvs)
		return out, err
	}
	txn := c.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", in.revision))
	if in.verb == remove {
		txn = txn.Then(clientv3.OpDelete(key))
	} else {
		txn = txn.Then(clientv3.OpPut(key, valueText(in.value)))
	}
	if in.verb != create {
		txn = txn.Else(clientv3.OpGet(key))
	}
	answer, err := txn.Commit()
	if err != nil {
		return out, err
	}
	out.done, out.revision = answer.Succeeded, answer.Header.Revision
	if !out.done && in.verb != create {
		out.shown, err = entriesOf(answer.Responses[0].GetResponseRange().Kvs)
	}
	return out, err
}

func entriesOf(kvs []*mvccpb.KeyValue) (shown [keys]entry, err error) {
	for _, kv := range kvs {
		k, err := keyOf(kv.Key)
		if err != nil {
			return shown, err
		}
		if shown[k], err = entryOf(kv); err != nil {
			return shown, err
		}
	}
	return shown, nil
}

func keyOf(name []byte) (int, error) {
	k, err := strconv.Atoi(strings.TrimPrefix(string(name), prefix))
	if err != nil || k >= keys {
		return 0, fmt.Errorf("there is a key %s", name)
	}
	return k, nil
}
