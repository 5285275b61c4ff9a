package datastore

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/k3s-io/kine/pkg/logstructured"
	"github.com/k3s-io/kine/pkg/server"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/reap-dev/reap/tests/bubble"
)

// elsewhere is a database elsewhere with two keys at revision 100,000.
type elsewhere struct {
	server.Backend
	breaks error // a list breaks off after the first key
	watch  chan int64
	events chan server.EventBatch
}

const elsewhereAt = 100_000

func (elsewhere) CurrentRevision(context.Context) (int64, error) { return 1, nil }

// versions are the keys that were created, each with all that became of it: a version without a value is its deletion.
var versions = map[string][]server.KeyValue{
	"/made":             {{CreateRevision: elsewhereAt, ModRevision: elsewhereAt, Value: []byte("ours")}},
	"/made earlier":     {{CreateRevision: elsewhereAt - 7, ModRevision: elsewhereAt - 7, Value: []byte("ours")}},
	"/made later":       {{CreateRevision: elsewhereAt + 7, ModRevision: elsewhereAt + 7, Value: []byte("ours")}},
	"/changed":          {{CreateRevision: elsewhereAt - 7, ModRevision: elsewhereAt - 7, Value: []byte("ours")}, {CreateRevision: elsewhereAt - 7, ModRevision: elsewhereAt - 5, Value: []byte("theirs")}},
	"/gone":             {{CreateRevision: elsewhereAt, ModRevision: elsewhereAt, Value: []byte("ours")}, {ModRevision: elsewhereAt + 1}},
	"/replaced":         {{CreateRevision: elsewhereAt, ModRevision: elsewhereAt, Value: []byte("ours")}, {ModRevision: elsewhereAt + 1}, {CreateRevision: elsewhereAt + 2, ModRevision: elsewhereAt + 2, Value: []byte("theirs")}},
	"/gone, earlier":    {{CreateRevision: elsewhereAt - 7, ModRevision: elsewhereAt - 7, Value: []byte("ours")}, {ModRevision: elsewhereAt - 5}},
	"/another's":        {{CreateRevision: elsewhereAt, ModRevision: elsewhereAt, Value: []byte("theirs")}},
	"/changed by then":  {{CreateRevision: elsewhereAt - 7, ModRevision: elsewhereAt - 7, Value: []byte("theirs")}, {CreateRevision: elsewhereAt - 7, ModRevision: elsewhereAt, Value: []byte("ours")}},
	"/was not made yet": nil,
}

func (elsewhere) Get(_ context.Context, key string, revision int64, keysOnly bool) (_ int64, found *server.KeyValue, _ error) {
	for _, v := range versions[key] {
		if revision > 0 && v.ModRevision > revision {
			break
		}
		if found = &v; v.Value == nil {
			found = nil
		} else if keysOnly {
			found.Value = nil
		}
	}
	return elsewhereAt, found, nil
}

// Create has written what versions has, and returns the revision of any write.
func (elsewhere) Create(context.Context, string, []byte, int64) (int64, error) {
	return elsewhereAt, nil
}

// TestSharedCreationTellsItsOwnRevision: or none.
func TestSharedCreationTellsItsOwnRevision(t *testing.T) {
	for key, want := range map[string]int64{
		"/made": elsewhereAt, "/made earlier": elsewhereAt - 7, "/made later": elsewhereAt + 7, "/changed": elsewhereAt - 7, "/gone": elsewhereAt,
		"/replaced": elsewhereAt, "/gone, earlier": 0, "/another's": 0, "/changed by then": 0, "/was not made yet": 0,
	} {
		if revision, err := (shared{elsewhere{}}).Create(t.Context(), key, []byte("ours"), 0); revision != want || (err == nil) != (want > 0) {
			t.Errorf("%s: %d, want %d (%v)", key, revision, want, err)
		}
	}
}

func (elsewhere) Delete(_ context.Context, key string, _ int64) (int64, *server.KeyValue, bool, error) {
	if key == "/there" {
		return elsewhereAt, &server.KeyValue{Key: key, ModRevision: elsewhereAt}, true, nil
	}
	return elsewhereAt, nil, true, nil
}

func TestSharedDeletionOfNothingIsNoSuccess(t *testing.T) {
	for _, c := range []struct {
		key      string
		revision int64
		want     bool
	}{{"/there", 5, true}, {"/nothing", 5, false}, {"/nothing", 0, true}} {
		if _, _, deleted, err := (shared{elsewhere{}}).Delete(t.Context(), c.key, c.revision); err != nil || deleted != c.want {
			t.Errorf("%s at revision %d: deleted %v, want %v (%v)", c.key, c.revision, deleted, c.want, err)
		}
	}
}

func (e elsewhere) ListStream(context.Context, string, string, int64, int64, bool) server.ListResult {
	keys, errs := make(chan *server.KeyValue, 2), make(chan error, 1)
	keys <- &server.KeyValue{Key: "/a"}
	if e.breaks != nil {
		errs <- e.breaks
	} else {
		keys <- &server.KeyValue{Key: "/b"}
	}
	close(keys)
	close(errs)
	return server.ListResult{CurrentRevision: elsewhereAt, KVc: keys, Errorc: errs}
}

func (e elsewhere) Watch(_ context.Context, revision int64) server.WatchResult {
	e.watch <- revision
	return server.WatchResult{CurrentRevision: elsewhereAt, Eventc: e.events}
}

func TestSharedListThatBreaksOffIsAnError(t *testing.T) {
	revision, kvs, err := shared{elsewhere{}}.List(t.Context(), "/", "0", 0, 0, false)
	if err != nil || len(kvs) != 2 || revision != elsewhereAt {
		t.Errorf("%d keys at revision %d, %v", len(kvs), revision, err)
	}
	broken := errors.New("connection reset by peer")
	if _, kvs, err := (shared{elsewhere{breaks: broken}}).List(t.Context(), "/", "0", 0, 0, false); !errors.Is(err, broken) || len(kvs) != 0 {
		t.Errorf("%d keys, %v", len(kvs), err)
	}
}

func TestSharedRevisionIsTheDatabases(t *testing.T) {
	if revision, err := (shared{elsewhere{}}).CurrentRevision(t.Context()); err != nil || revision != elsewhereAt {
		t.Errorf("revision %d, %v", revision, err)
	}
}

// TestSharedWatchFromFarBackListsAgain: what it would have to read has no bounds.
func TestSharedWatchFromFarBackListsAgain(t *testing.T) {
	e := elsewhere{watch: make(chan int64, 5)}
	for _, revision := range []int64{1, elsewhereAt - furthestBehind - 1} {
		if watch := (shared{e}).Watch(t.Context(), revision); watch.CompactRevision <= revision || watch.CurrentRevision != elsewhereAt {
			t.Errorf("a watch from %d of %d: %+v", revision, elsewhereAt, watch)
		}
	}
	for _, revision := range []int64{0, elsewhereAt - furthestBehind, elsewhereAt + 1} {
		if watch := (shared{e}).Watch(t.Context(), revision); watch.CompactRevision != 0 || <-e.watch != revision {
			t.Errorf("a watch from %d of %d: %+v", revision, elsewhereAt, watch)
		}
	}
}

// TestSharedWatchesDoNotShareRoom: what one watch appends to a batch, no other sees; and a watch ends with its events, or with its context.
func TestSharedWatchesDoNotShareRoom(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		e := elsewhere{watch: make(chan int64, 3), events: make(chan server.EventBatch, 1)}
		batch := server.EventBatch{CurrentRev: elsewhereAt, Events: make([]*server.Event, 1, 3)}
		first, second := (shared{e}).Watch(ctx, 0), (shared{e}).Watch(ctx, 0)
		// Each of the two takes one, whichever asks first.
		e.events <- batch
		synctest.Wait()
		e.events <- batch
		one, other := (<-first.Eventc).Events, (<-second.Eventc).Events
		mine, theirs := &server.Event{Create: true}, &server.Event{Delete: true}
		one, other = append(one, mine), append(other, theirs)
		if one[1] != mine || other[1] != theirs {
			t.Error("two watches have written to the same place")
		}
		cancel()
		if _, more := <-first.Eventc; more {
			t.Error("a watch goes on after its context")
		}
		third := (shared{e}).Watch(t.Context(), 0)
		close(e.events)
		if _, more := <-third.Eventc; more {
			t.Error("a watch goes on after its events")
		}
	})
}

// failing is the log of one key, in a database that fails to write the first rows of it.
type failing struct {
	logstructured.Log
	fails  int           // how often that happens
	newest *server.Event // of the key; nil if it was never there
	faster *server.Event // what another server has written meanwhile
}

const failingAt = 10

func (l *failing) Append(_ context.Context, e *server.Event) (int64, error) {
	var was int64
	if l.newest != nil {
		was = l.newest.KV.ModRevision
	}
	if e.PrevKV.ModRevision != was {
		return 0, nil
	}
	if l.faster != nil {
		l.newest, l.faster = l.faster, nil
		return 0, server.ErrKeyExists
	}
	if l.fails > 0 {
		l.fails--
		return 0, errors.New("could not extend file: no space left on device")
	}
	kv := &server.KeyValue{Key: "/key", ModRevision: failingAt + 5, CreateRevision: failingAt + 5, Value: e.KV.Value}
	l.newest = &server.Event{Delete: e.Delete, KV: kv}
	return kv.ModRevision, nil
}

func (l *failing) List(_ context.Context, _, _ string, _, _ int64, deletions, _ bool) (server.EventBatch, error) {
	batch := server.EventBatch{CurrentRev: failingAt}
	if l.newest != nil && (deletions || !l.newest.Delete) {
		batch.Events = []*server.Event{l.newest}
	}
	return batch, nil
}

func (l *failing) CurrentRevision(context.Context) (int64, error) { return failingAt, nil }

// TestSharedWriteThatFailsIsNoConflict: the API server tries those again at once, until the request ends.
func TestSharedWriteThatFailsIsNoConflict(t *testing.T) {
	at := func(revision int64, deleted bool) *server.Event {
		return &server.Event{Delete: deleted, KV: &server.KeyValue{Key: "/key", ModRevision: revision, CreateRevision: revision, Lease: 5}}
	}
	create := func(b shared) (bool, error) {
		_, err := b.Create(t.Context(), "/key", []byte("ours"), 5)
		if err == server.ErrKeyExists { //nolint:errorlint // so compares kine
			return false, nil
		}
		return err == nil, err
	}
	update := func(b shared) (bool, error) {
		_, _, done, err := b.Update(t.Context(), "/key", []byte("ours"), failingAt, 5)
		return done, err
	}
	remove := func(b shared) (bool, error) {
		_, _, done, err := b.Delete(t.Context(), "/key", failingAt)
		return done, err
	}
	removeAny := func(b shared) (bool, error) {
		_, _, done, err := b.Delete(t.Context(), "/key", 0)
		return done, err
	}
	for what, c := range map[string]struct {
		write  func(shared) (bool, error)
		log    failing
		done   bool
		failed bool
	}{
		"update":                                 {update, failing{newest: at(failingAt, false)}, true, false},
		"update that fails":                      {update, failing{newest: at(failingAt, false), fails: 100}, false, true},
		"update that fails once":                 {update, failing{newest: at(failingAt, false), fails: 1}, true, false},
		"update that is late":                    {update, failing{newest: at(failingAt+1, false)}, false, false},
		"update that loses":                      {update, failing{newest: at(failingAt, false), faster: at(failingAt+1, false)}, false, false},
		"update of what is being deleted":        {update, failing{newest: at(failingAt, false), faster: at(failingAt+1, true)}, false, false},
		"update of nothing":                      {update, failing{}, false, false},
		"deletion":                               {remove, failing{newest: at(failingAt, false)}, true, false},
		"deletion that fails":                    {remove, failing{newest: at(failingAt, false), fails: 100}, false, true},
		"deletion that fails once":               {remove, failing{newest: at(failingAt, false), fails: 1}, true, false},
		"deletion that loses":                    {remove, failing{newest: at(failingAt, false), faster: at(failingAt+1, false)}, false, false},
		"deletion of what is being deleted":      {remove, failing{newest: at(failingAt, false), faster: at(failingAt+1, true)}, false, false},
		"deletion of any revision":               {removeAny, failing{newest: at(failingAt, false)}, false, false},
		"creation":                               {create, failing{}, true, false},
		"creation that fails":                    {create, failing{fails: 100}, false, true},
		"creation of what exists":                {create, failing{newest: at(failingAt, false)}, false, false},
		"creation of what was deleted":           {create, failing{newest: at(failingAt, true)}, true, false},
		"creation of what was deleted, fails":    {create, failing{newest: at(failingAt, true), fails: 100}, false, true},
		"creation of what was deleted, and late": {create, failing{newest: at(failingAt, true), faster: at(failingAt+1, false)}, false, false},
		"creation of what was deleted, again":    {create, failing{newest: at(failingAt, true), fails: 1}, true, false},
	} {
		done, err := c.write(shared{logstructured.New(&c.log)})
		if done != c.done || (err != nil) != c.failed {
			t.Errorf("%s: done %v, want %v (%v)", what, done, c.done, err)
		}
		if code, _ := Explain(status.Convert(err).Message()); c.failed && (code != 503 || status.Code(err) != codes.Internal) {
			t.Errorf("%s: answered with %v", what, err)
		}
	}
}
