package histories

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
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

// world is what a history happens in.
type world struct {
	// servers has what makes clients of each server of the store. The first is never killed if there are others.
	servers []func() (*clientv3.Client, error)
	// sockets has where each listens.
	sockets []string
	// trouble kills servers until it is done; nil if nobody does.
	trouble func(context.Context, *rand.Rand) error
	// early is true if the store gives a write its revision before it is committed (kine#676).
	early bool
}

// dialing makes clients with a connection.
func dialing(socket string) func() (*clientv3.Client, error) {
	return func() (*clientv3.Client, error) {
		return clientv3.New(clientv3.Config{Endpoints: []string{socket}, DialTimeout: patience, Logger: zap.NewNop()})
	}
}

// TestHistoriesAreLinearizable: users and watches in the store's own process, with compactions.
func TestHistoriesAreLinearizable(t *testing.T) {
	for name, engine := range engines {
		t.Run(name, func(t *testing.T) {
			s := inProcess(t, engine)
			client := func() (*clientv3.Client, error) { return s.Client(), nil }
			testHistory(t, world{servers: []func() (*clientv3.Client, error){client}, sockets: s.Endpoints})
		})
	}
}

// TestHistoriesAreLinearizableOverKills: over the store's socket, and the store is killed and started again meanwhile.
func TestHistoriesAreLinearizableOverKills(t *testing.T) {
	for name, engine := range engines {
		t.Run(name, func(t *testing.T) {
			p := started(t, engine)
			testHistory(t, world{
				servers: []func() (*clientv3.Client, error){dialing(p.endpoint())}, sockets: []string{p.endpoint()}, trouble: p.killsNowAndThen,
			})
		})
	}
}

// testHistory lets users write while watches come and go and trouble happens, and checks what all of them have seen.
func testHistory(t *testing.T, in world) {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv(seedVariable); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	h := &history{world: in, record: &record{began: time.Now()}, seed: seed}
	var acting, watching sync.WaitGroup
	h.acting, h.watching = &acting, &watching
	ctx, cancel := context.WithTimeout(t.Context(), size.Of(2*patience, 2*patience, 15*patience))
	defer func() {
		cancel()
		acting.Wait()
		watching.Wait()
		if h.leases != nil {
			<-h.leases.ended
		}
		if t.Failed() {
			t.Logf("%s=%d; users act at once, so that the order is another each time", seedVariable, seed)
			t.Errorf("all that was seen is in %s", h.leave(t))
		}
	}()
	for _, connect := range in.servers {
		c, err := connect()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }() // the calls have told
		h.clients = append(h.clients, c)
	}
	begin, err := h.begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	h.run(ctx, t, begin)
	if !t.Failed() {
		h.check(ctx, t)
	}
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
	world   world
	clients []*clientv3.Client // one for each server
	record  *record
	seed    uint64

	acting, watching *sync.WaitGroup
	watchers         []*watcher // the first is of the first server and sees everything
	slow             []*slowWatch
	reads            reads
	lists            []listed
	leases           *leases
	compacted        int64        // the latest that a compaction was asked for
	final            atomic.Int64 // see connection
	kills            error

	lacked lacks // by what was checked
}

// listed is a list, and a watch that begins where it ends.
type listed struct {
	list  reading
	watch *watcher
}

// begin begins the watches that see everything, one of each server.
func (h *history) begin(ctx context.Context) (int64, error) {
	var begin int64
	for _, c := range h.clients {
		var err error
		if begin, err = first(ctx, c); err != nil {
			return 0, err
		}
	}
	for i := range h.clients {
		h.watch(ctx, i, &watcher{name: fmt.Sprintf("all of server %d", i), from: begin + 1, key: every})
	}
	h.leases = &leases{client: h.clients[0], record: h.record, r: rand.New(rand.NewPCG(h.seed, 2000))}
	h.leases.watch(ctx, begin+1)
	for _, begun := range []chan struct{}{h.watchers[0].begun, h.leases.begun} {
		select {
		case <-begun:
		case <-ctx.Done():
			return 0, fmt.Errorf("no watch begins: %w", context.Cause(ctx))
		}
	}
	return begin, nil
}

// watch begins a watch of a server. With several servers none has etcd's client between, which does not say when it begins a watch again.
func (h *history) watch(ctx context.Context, server int, w *watcher) {
	w.begun, w.ended = make(chan struct{}), make(chan struct{})
	h.watchers = append(h.watchers, w)
	if w.direct == nil && len(h.clients) > 1 {
		w.direct = h.direct(server)
	}
	h.watching.Go(func() {
		if w.direct != nil {
			w.runDirectly(ctx, lastValue)
		} else {
			w.run(ctx, h.clients[server], lastValue)
		}
	})
}

func (h *history) direct(server int) *connection {
	return &connection{endpoint: h.world.sockets[server], record: h.record, final: &h.final}
}

// run ends when all users have and all watches have seen the last value of each key.
func (h *history) run(ctx context.Context, t *testing.T, begin int64) {
	t.Helper()
	over, written := make(chan struct{}), make(chan struct{})
	each := size.Of(60, 250, 1500)
	// repeat acts until that was done often enough and until is closed.
	repeat := func(n int, until chan struct{}, act func(context.Context)) {
		for i := 0; (i < n || !closed(until)) && ctx.Err() == nil; i++ {
			once, cancel := context.WithTimeout(ctx, 5*time.Second)
			act(once)
			cancel()
		}
	}
	ended := make(chan struct{})
	for i := range h.clients { // before anybody writes, so that there is enough to miss
		h.watchSlowly(ctx, i, begin, ended)
	}
	for _, s := range h.slow {
		select {
		case <-s.begun:
		case <-s.ended:
		}
	}
	var writing sync.WaitGroup
	for id := range users {
		c, err := h.world.servers[id%len(h.clients)]()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }() // the calls have told
		u := &user{id: id, client: c, record: h.record, r: rand.New(rand.NewPCG(h.seed, uint64(id)))}
		writing.Go(func() { repeat(each, over, u.act) })
	}
	for i, c := range h.clients {
		r := &reader{client: c, record: h.record, reads: &h.reads, r: rand.New(rand.NewPCG(h.seed, uint64(100+i)))}
		h.acting.Go(func() { repeat(0, written, r.act) })
	}
	h.acting.Go(func() { repeat(size.Of(3, 5, 50), over, h.leases.act) })
	h.acting.Go(func() { writing.Wait(); close(written) })
	h.acting.Go(func() {
		defer close(over)
		if h.world.trouble != nil {
			h.kills = h.world.trouble(ctx, rand.New(rand.NewPCG(h.seed, 1001)))
		}
	})
	go func() { h.acting.Wait(); close(ended) }()
	h.watchWhile(ctx, ended, begin)
	if ctx.Err() != nil {
		t.Fatalf("it took too long: %v", context.Cause(ctx))
	}
	if h.kills != nil {
		t.Fatal(h.kills)
	}
	if err := h.finish(ctx); err != nil {
		t.Fatal(err)
	}
	if err := h.leases.await(ctx); err != nil {
		t.Fatal(err)
	}
	h.watching.Wait()
}

// watchWhile begins watches and compacts until ended is closed.
func (h *history) watchWhile(ctx context.Context, ended chan struct{}, begin int64) {
	r := rand.New(rand.NewPCG(h.seed, 1000))
	for n := 0; !closed(ended) && ctx.Err() == nil; n++ {
		server := n % len(h.clients)
		in := asked{verb: list}
		list := reading{called: h.record.now(), end: keys, count: unknown}
		got, err := h.record.do(users+1, in, func() (answered, error) { return call(ctx, h.clients[server], in) })
		if err != nil {
			wait(ctx, 50*time.Millisecond) // it was killed
			continue
		}
		list.returned, list.revision, list.entries = h.record.now(), got.revision, got.shown
		h.askForProgress(ctx)
		if n < 40 {
			w := &watcher{name: fmt.Sprintf("watch %d of server %d", n, server), key: r.IntN(keys+1) - 1, from: max(begin, got.revision-int64(r.IntN(100))) + 1}
			if n%5 == 4 {
				w.slow = 20 * time.Millisecond
			}
			if n%4 == 3 { // as those do who list first
				w.key, w.from = every, got.revision+1
				h.lists = append(h.lists, listed{list, w})
			}
			h.watch(ctx, server, w)
		}
		if n%10 == 9 && got.revision-begin > 200 {
			// The watches of everything have to see what is compacted, though they may have to come back after a kill.
			revision := min(got.revision-50, h.leases.upTo())
			for _, w := range h.watchers[:len(h.clients)] {
				if !closed(w.ended) { // refused
					revision = min(revision, w.shown.Load())
				}
			}
			h.compact(ctx, server, revision)
		}
		select {
		case <-ended:
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// askForProgress asks as the API server does that wants to know whether its cache is as new as the store. What comes is
// checked in the end. Direct watches ask for themselves.
func (h *history) askForProgress(ctx context.Context) {
	for _, w := range h.watchers {
		if w.direct == nil && !closed(w.ended) {
			_ = h.clients[0].RequestProgress(w.stream(ctx)) // a killed store does not answer
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
func (h *history) compact(ctx context.Context, server int, revision int64) {
	if revision <= h.compacted {
		return
	}
	h.compacted = revision
	once, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, _ = h.clients[server].Compact(once, revision) // a killed store has not done it, or not said so
}

// finish gives each key its last value.
func (h *history) finish(ctx context.Context) error {
	// A watch that began now might not see a last value that is not committed, and there will be no other.
	for _, w := range h.watchers {
		for w.direct != nil && !closed(w.ended) && !w.watching.Load() {
			if !wait(ctx, 10*time.Millisecond) {
				return fmt.Errorf("%s never begins: %w", w.name, context.Cause(ctx))
			}
		}
	}
	var final int64
	for k := range keys {
		in := asked{verb: update, key: k, value: lastValue}
		for {
			got, err := call(ctx, h.clients[0], asked{verb: get, key: k})
			if err != nil {
				return err
			}
			in.revision = got.shown[k].revision
			if in.verb = update; in.revision == 0 {
				in.verb = create
			}
			out, err := h.record.do(users, in, func() (answered, error) { return call(ctx, h.clients[0], in) })
			if err != nil {
				return err
			}
			if out.done {
				final = max(final, out.revision)
				break
			}
		}
	}
	h.final.Store(final)
	return nil
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
	all := h.record.whole(changes)
	model, readings := promises, append(readingsOf(all), h.reads.all...)
	var writes flights
	if h.world.early {
		model, writes = promisesOfSQL, flightsOf(all, readings)
	}
	if err := checkOrder(all, readings); err != nil {
		t.Error(err)
	}
	h.checkReads(t, changes, readings, writes)
	refused, progress := h.checkWatches(t, changes, writes)
	if err := h.leases.check(h.world.early); err != nil {
		t.Error(err)
	}
	old := h.checkOld(ctx, t, changes)
	result, info := porcupine.CheckOperationsVerbose(model, all, patience)
	if result != porcupine.Ok {
		path := filepath.Join(failedDir(t), "history.html")
		if err := porcupine.VisualizePath(model, info, path); err != nil {
			t.Error(err)
		}
		said := map[porcupine.CheckResult]string{porcupine.Illegal: "is not linearizable", porcupine.Unknown: "could not be checked within " + patience.String()}
		t.Errorf("the history of %d operations %s: see %s", len(all), said[result], path)
	}
	size.Power(t, fmt.Sprintf("seed=%d operations=%d lost=%d changes=%d watches=%d refused=%d progress=%d old=%d reads=%d pages=%d slow=%s leases=%d%s",
		h.seed, len(all), len(h.record.lost), len(changes), len(h.watchers), refused, progress, old, len(readings), h.reads.pages,
		h.slowly(), len(h.leases.writes), h.lacked))
	if len(changes) < size.Of(50, 200, 1000) || progress == 0 || old == 0 || h.reads.pages < size.Of(2, 10, 50) || len(h.leases.writes) == 0 {
		t.Errorf("too little was seen: %d changes, %d times that a watch has shown all, %d old lists, %d pages, %d leases",
			len(changes), progress, old, h.reads.pages, len(h.leases.writes))
	}
}

// checkReads holds all reads to the changes, and those that were refused to the compactions.
func (h *history) checkReads(t *testing.T, changes []change, readings []reading, writes flights) {
	t.Helper()
	wrong := 0
	for _, r := range readings {
		lacks, err := r.check(changes, writes)
		if err != nil {
			if wrong++; wrong <= 5 {
				t.Error(err)
			}
		}
		h.lacked.read(lacks)
	}
	if wrong > 5 {
		t.Errorf("%d reads of %d are wrong", wrong, len(readings))
	}
	for _, revision := range h.reads.refused {
		if revision == 0 || revision > h.compacted {
			t.Errorf("a read at revision %d is refused as compacted, and only %d was compacted", revision, h.compacted)
		}
	}
	for _, err := range h.reads.failed {
		if h.world.trouble == nil && !errors.Is(err, context.DeadlineExceeded) { // a machine may be busy
			t.Error(err)
		}
	}
}

// checkWatches holds all watches to the changes, and returns how many were refused, and how often one has said that it has shown all.
func (h *history) checkWatches(t *testing.T, changes []change, writes flights) (refused, progress int) {
	t.Helper()
	for _, w := range h.watchers {
		lacks, err := w.check(changes, h.compacted, writes)
		if err != nil {
			t.Errorf("%s, of key %d from revision %d: %v", w.name, w.key, w.from, err)
		}
		h.lacked.watch(lacks)
		if w.compacted {
			refused++
		}
		for _, p := range w.pieces {
			if p.progress > 0 {
				progress++
			}
		}
	}
	for _, l := range h.lists {
		lacks, err := l.list.check(changes, writes)
		if err != nil {
			t.Error(err)
		}
		h.lacked.cache(lacks, l.watch)
	}
	for _, w := range h.slow {
		if err := w.check(); err != nil {
			t.Error(err)
		}
	}
	return refused, progress
}

// checkOld reads the store at some of its revisions, and returns how many it still had.
func (h *history) checkOld(ctx context.Context, t *testing.T, changes []change) (read int) {
	t.Helper()
	for i := len(changes) - 1; i >= 0; i -= max(1, len(changes)/50) {
		revision := changes[i].revision
		answer, err := h.clients[i%len(h.clients)].Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(revision))
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
