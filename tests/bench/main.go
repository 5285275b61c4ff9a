// Command bench compares reap with two others that can do the same work: a client that deletes the objects
// itself, and the collector of Kubernetes. scripts/bench builds and runs it; docs/benchmarks.md has figures.
//
// It starts the real binary as a child, over a real SQLite file, and makes every comparison in one run on one
// machine: figures from two machines, or from two days, say little about each other.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// bench is one run of the program.
type bench struct {
	reap      string        // the binary that is measured
	datastore string        // of its servers; "" is SQLite
	workers   int           // of each server's collector; 0 is its default
	before    string        // another binary, for the store; "" is none
	graph     string        // the compiled tests of pkg/gc/graph
	objects   int           // what all sizes are derived from
	repeat    int           // how often each cascade runs
	idle      time.Duration // for how long an idle server is watched
	sync      time.Duration // what a sync takes on a slow disk
	dir       string        // everything is kept below it, and removed at the end
	report    report
	spaces    int // namespaces made so far
}

// measure is one thing that can be asked for by name.
type measure struct {
	name, about string
	run         func(*bench, context.Context) error
}

func measures() []measure {
	var all []measure
	for _, s := range shapes {
		all = append(all, measure{s.name, s.about, func(b *bench, ctx context.Context) error { return b.cascades(ctx, s) }})
	}
	all = append(all,
		measure{"calls", "API calls per object, counted by the server's audit log", (*bench).calls},
		measure{"graph", "the collector's graph alone", (*bench).graphs},
		measure{"memory", "memory of each collector per object", (*bench).memory},
		measure{"server", "memory of the whole server", (*bench).serverMemory},
		measure{"start", "time to ready and to the first decision", (*bench).start},
		measure{"idle", "what a server does while nobody asks for anything", (*bench).idleness},
		measure{"neighbours", "what others notice of a large cascade", (*bench).neighbours},
	)
	all = append(all,
		measure{"store/cascades", "SQLite and the embedded etcd side by side", (*bench).storeCascades},
		measure{"store/full", "the same two with many objects", (*bench).storesFull},
	)
	all = append(all, measure{"slow-syncs", "what synced writes cost on a slow disk", (*bench).slowSyncs})
	for _, a := range attacks {
		all = append(all, measure{"hostile/" + a.name, a.about, func(b *bench, ctx context.Context) error { return b.hostile(ctx, a) }})
	}
	return all
}

// is reports whether name selects the measure: it is the name of the measure or of its group.
func (m measure) is(name string) bool { return m.name == name || strings.HasPrefix(m.name, name+"/") }

func main() {
	if len(os.Args) > 1 && os.Args[1] == collectorCommand {
		exit(runCollector(os.Args[2:]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	exit(run(ctx))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run(ctx context.Context) error {
	b := &bench{}
	all := measures()
	var names []string
	for _, m := range all {
		names = append(names, m.name)
	}
	var only, file string
	flag.StringVar(&b.reap, "reap", "bin/reap", "the `binary` to measure")
	flag.StringVar(&b.datastore, "datastore", "", "the `endpoint` of the servers' datastore, such as etcd (default: SQLite)")
	flag.IntVar(&b.workers, "workers", 0, "the servers run with --gc-workers=`N` (default: theirs)")
	flag.StringVar(&b.before, "before", "", "another `binary`: store compares it, with its default datastore")
	flag.StringVar(&b.graph, "graph-test", "", "the compiled tests of pkg/gc/graph, a `binary`")
	flag.IntVar(&b.objects, "objects", 2000, "`N`, what all sizes are derived from: wide and deep cascades have 5 N, those of store 10 N, a full server 10 N, full stores 50 N, an attack up to 25 N, a large graph 50 N")
	flag.IntVar(&b.repeat, "repeat", 3, "how often each cascade runs; the median counts")
	flag.DurationVar(&b.idle, "idle", time.Minute, "for how long an idle server is watched; half an hour shows more")
	flag.DurationVar(&b.sync, "sync", 5*time.Millisecond, "what a sync takes on a slow disk")
	flag.StringVar(&only, "only", "", "measure `NAME` alone, or a,b; hostile is all of hostile/…, store of store/…: "+strings.Join(names, ", "))
	flag.StringVar(&file, "json", "", "also write the figures to `FILE`")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unknown argument %s", flag.Arg(0))
	}
	if b.objects < 100 || b.repeat < 1 || b.workers < 0 {
		return errors.New("--objects must be 100 at least, --repeat 1, and --workers 0")
	}
	chosen := names
	if only != "" {
		chosen = strings.Split(only, ",")
	}
	for _, name := range chosen {
		if !slices.ContainsFunc(all, func(m measure) bool { return m.is(name) }) {
			return fmt.Errorf("--only knows %s; not %s", strings.Join(names, ", "), name)
		}
	}
	var err error
	if b.dir, err = os.MkdirTemp("", "reap-bench-"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(b.dir) }() // the figures matter more
	b.report.begin(os.Args[1:], b.objects)
	for _, m := range all {
		if !slices.ContainsFunc(chosen, m.is) {
			continue
		}
		say("%s: %s", m.name, m.about)
		if failed := m.run(b, ctx); failed != nil {
			// The other measures do not depend on it.
			say("  it failed: %v", failed)
			err = errors.Join(err, fmt.Errorf("%s: %w", m.name, failed))
		}
		if ctx.Err() != nil {
			break
		}
	}
	b.report.end()
	b.report.print(os.Stdout)
	if file != "" {
		err = errors.Join(err, b.report.write(file))
	}
	return err
}

// say prints the progress.
func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", args...)
}
