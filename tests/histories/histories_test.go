package histories

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/reap-dev/reap/pkg/datastore"
	"github.com/reap-dev/reap/tests/size"
)

const (
	users        = 6
	seedVariable = "REAP_TEST_SEED"
	// lastValue is what every key gets in the end, so that watches know that they have seen everything.
	lastValue = int64(1) << 60
	// patience bounds what a test waits for.
	patience = time.Minute
)

var engines = map[string]string{"sqlite": "", "etcd": datastore.Etcd}

// TestHistoriesAreLinearizable: users and watches in the store's own process, with compactions.
func TestHistoriesAreLinearizable(t *testing.T) {
	for name, engine := range engines {
		t.Run(name, func(t *testing.T) {
			client := inProcess(t, engine)
			testHistory(t, func() (*clientv3.Client, error) { return client(), nil }, func(context.Context, *rand.Rand) error { return nil })
		})
	}
}

// TestHistoriesAreLinearizableOverKills: over the store's socket, and the store is killed and started again meanwhile.
func TestHistoriesAreLinearizableOverKills(t *testing.T) {
	for name, engine := range engines {
		t.Run(name, func(t *testing.T) {
			p := &process{dir: shortDir(t), engine: engine}
			if err := p.start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				p.kill()
				if t.Failed() {
					t.Logf("the store said:\n%s", p.output.Bytes())
				}
			}()
			client := func() (*clientv3.Client, error) {
				return clientv3.New(clientv3.Config{Endpoints: []string{p.endpoint()}, DialTimeout: patience, Logger: zap.NewNop()})
			}
			testHistory(t, client, func(ctx context.Context, r *rand.Rand) error {
				for range size.Of(2, 3, 20) {
					select {
					case <-ctx.Done():
						return nil
					case <-time.After(time.Duration(300+r.IntN(700)) * time.Millisecond):
					}
					p.kill()
					if err := p.start(); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}

// testHistory lets users write while watches come and go and trouble happens, and checks what all of them have seen.
func testHistory(t *testing.T, connect func() (*clientv3.Client, error), trouble func(context.Context, *rand.Rand) error) {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv(seedVariable); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	defer func() {
		if t.Failed() {
			t.Logf("%s=%d; users act at once, so that the order is another each time", seedVariable, seed)
		}
	}()
	c, err := connect()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }() // the calls have told
	ctx, cancel := context.WithTimeout(t.Context(), size.Of(patience, patience, 10*patience))
	defer cancel()
	begin, err := first(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	h := &history{client: c, record: &record{began: time.Now()}, seed: seed}
	h.watch(ctx, &watcher{name: "reference", from: begin + 1, key: every})
	h.run(ctx, t, connect, trouble, begin)
	if t.Failed() {
		return
	}
	h.check(ctx, t)
}

// first returns the store's revision once it answers.
func first(ctx context.Context, c *clientv3.Client) (int64, error) {
	for {
		once, cancel := context.WithTimeout(ctx, time.Second)
		answer, err := c.Get(once, prefix, clientv3.WithPrefix())
		cancel()
		if err == nil {
			return answer.Header.Revision, nil
		}
		if ctx.Err() != nil {
			return 0, err
		}
	}
}

// history is one run: what users did, and what watches have shown.
type history struct {
	client *clientv3.Client
	record *record
	seed   uint64

	watching  sync.WaitGroup
	watchers  []*watcher // the first sees everything
	compacted int64      // the latest that a compaction was asked for
	kills     error
}

func (h *history) watch(ctx context.Context, w *watcher) {
	w.ended = make(chan struct{})
	h.watchers = append(h.watchers, w)
	h.watching.Go(func() { w.run(ctx, h.client, lastValue) })
}

// run ends when all users have and all watches have seen the last value of each key.
func (h *history) run(ctx context.Context, t *testing.T, connect func() (*clientv3.Client, error), trouble func(context.Context, *rand.Rand) error, begin int64) {
	t.Helper()
	over := make(chan struct{})
	var acting sync.WaitGroup
	each := size.Of(60, 250, 3000)
	for id := range users {
		c, err := connect()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }() // the calls have told
		acting.Go(func() {
			u := &user{id: id, client: c, record: h.record, r: rand.New(rand.NewPCG(h.seed, uint64(id)))}
			for i := 0; i < each || !closed(over); i++ {
				once, cancel := context.WithTimeout(ctx, 5*time.Second)
				u.act(once)
				cancel()
				if ctx.Err() != nil {
					return
				}
			}
		})
	}
	r := rand.New(rand.NewPCG(h.seed, 1000))
	acting.Go(func() {
		defer close(over)
		h.kills = trouble(ctx, rand.New(rand.NewPCG(h.seed, 1001)))
	})
	ended := make(chan struct{})
	go func() { acting.Wait(); close(ended) }()
	for n := 0; !closed(ended); n++ {
		answer, err := h.client.Get(ctx, prefix, clientv3.WithPrefix())
		if ctx.Err() != nil {
			t.Fatalf("it took too long: %v", err)
		}
		if err != nil {
			continue // it was killed
		}
		now := answer.Header.Revision
		h.askForProgress(ctx)
		if n < 40 {
			w := &watcher{name: fmt.Sprintf("watch %d", n), key: r.IntN(keys+1) - 1, from: max(begin, now-int64(r.IntN(100))) + 1}
			if n%5 == 4 {
				w.slow = 20 * time.Millisecond
			}
			h.watch(ctx, w)
		}
		if n%10 == 9 && now-begin > 200 {
			// The watch of everything has to see what is compacted, though it may have to come back after a kill.
			h.compact(ctx, min(now-50, h.watchers[0].shown.Load()))
		}
		select {
		case <-ended:
		case <-time.After(50 * time.Millisecond):
		}
	}
	if h.kills != nil {
		t.Fatal(h.kills)
	}
	h.finish(ctx, t)
}

// askForProgress asks as the API server does that wants to know whether its cache is as new as the store. What comes is
// checked in the end.
func (h *history) askForProgress(ctx context.Context) {
	for _, w := range h.watchers {
		if !closed(w.ended) {
			_ = h.client.RequestProgress(w.stream(ctx)) // a killed store does not answer
		}
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// compact asks for a compaction. Whether it happened, and when, the store decides.
func (h *history) compact(ctx context.Context, revision int64) {
	h.compacted = revision
	_, _ = h.client.Compact(ctx, revision) // a killed store has not done it, or not said so
}

// finish gives each key its last value, and waits for the watches.
func (h *history) finish(ctx context.Context, t *testing.T) {
	t.Helper()
	for k := range keys {
		in := asked{verb: update, key: k, value: lastValue}
		for {
			got, err := call(ctx, h.client, asked{verb: get, key: k})
			if err != nil {
				t.Fatal(err)
			}
			in.revision = got.shown[k].revision
			if in.verb = update; in.revision == 0 {
				in.verb = create
			}
			out, err := h.record.do(users, in, func() (answered, error) { return call(ctx, h.client, in) })
			if err != nil {
				t.Fatal(err)
			}
			if out.done {
				break
			}
		}
	}
	h.watching.Wait()
}

// check holds everything that was seen to what was promised.
func (h *history) check(ctx context.Context, t *testing.T) {
	t.Helper()
	reference := h.watchers[0]
	var changes []change
	for _, p := range reference.pieces {
		changes = append(changes, p.changes...)
	}
	if reference.err != nil || reference.compacted {
		t.Fatalf("the watch of everything: %v, compacted %t", reference.err, reference.compacted)
	}
	if err := checkChanges(changes, h.record); err != nil {
		t.Error(err)
	}
	refused, progress := 0, 0
	for _, w := range h.watchers {
		if err := w.check(changes, h.compacted); err != nil {
			t.Errorf("%s, of key %d from revision %d: %v", w.name, w.key, w.from, err)
		}
		if w.compacted {
			refused++
		}
		for _, p := range w.pieces {
			if p.progress > 0 {
				progress++
			}
		}
	}
	old := h.checkOld(ctx, t, changes)
	all := h.record.whole(changes)
	result, info := porcupine.CheckOperationsVerbose(promises, all, patience)
	if result != porcupine.Ok {
		path := filepath.Join(failedDir(t), "history.html")
		if err := porcupine.VisualizePath(promises, info, path); err != nil {
			t.Error(err)
		}
		t.Errorf("the history of %d operations is not linearizable (%s): see %s", len(all), result, path)
	}
	size.Power(t, fmt.Sprintf("seed=%d operations=%d lost=%d changes=%d watches=%d refused=%d progress=%d old=%d",
		h.seed, len(all), len(h.record.lost), len(changes), len(h.watchers), refused, progress, old))
	if len(changes) < size.Of(50, 200, 2000) || progress == 0 || old == 0 {
		t.Errorf("too little was seen: %d changes, %d times that a watch has shown all, %d old lists", len(changes), progress, old)
	}
}

// checkOld reads the store at some of its revisions, and returns how many it still had.
func (h *history) checkOld(ctx context.Context, t *testing.T, changes []change) (read int) {
	t.Helper()
	for i := len(changes) - 1; i >= 0; i -= max(1, len(changes)/50) {
		revision := changes[i].revision
		answer, err := h.client.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(revision))
		if err != nil {
			if revision > h.compacted {
				t.Errorf("reading at revision %d, with %d compacted: %v", revision, h.compacted, err)
			}
			continue
		}
		read++
		shown, err := entriesOf(answer.Kvs)
		if err != nil {
			t.Fatal(err)
		}
		if want := stateAt(changes, revision); shown != want {
			t.Errorf("at revision %d there is %v, and should be %v", revision, shown, want)
		}
	}
	return read
}

// failedDir is where a failed run leaves what helps to understand it.
func failedDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join("..", "..", "bin", "failed-tests", t.Name())
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}
