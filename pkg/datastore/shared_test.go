package datastore

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/k3s-io/kine/pkg/server"
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
	synctest.Test(t, func(t *testing.T) {
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
