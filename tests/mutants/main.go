// Command mutants puts one plausible wrong line after another into the code and runs the tests that should notice.
// scripts/mutate runs it and says how it is used.
//
// The lists are the .txt files beside this one. Each entry names a file, a function in it, the lines that it
// replaces and the tests that have to fail:
//
//	file pkg/gc/act/act.go
//	test ./pkg/gc/act TestNoCallOutlivesItsTimeout
//
//	mutant act-read-without-timeout in Actor.Read
//	- ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, errTimeout)
//	+ ctx, cancel := context.WithCancel(ctx)
//
// A test line names a package and tests of it, joined by |; after ! those that are left out; all if it names none. One
// before the first mutant of a file holds for all of the file's mutants that have none of their own. Lines are
// compared without their indentation, and have to be found once in the function.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		stop()
		os.Exit(1)
	}
}

// options are the command line.
type options struct {
	tags                string
	only                *regexp.Regexp
	sample, jobs        int
	seed                uint64
	list, check, resume bool
}

func parseOptions() (o options, err error) {
	var only string
	flag.StringVar(&o.tags, "tags", "", "build tags")
	flag.StringVar(&only, "only", "", "regular expression on names and files")
	flag.IntVar(&o.sample, "sample", 0, "so many at random; 0 for all")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "of the sample")
	flag.IntVar(&o.jobs, "jobs", 2, "how many at once")
	flag.BoolVar(&o.list, "list", false, "print the list")
	flag.BoolVar(&o.check, "check", false, "check that each applies and compiles")
	flag.BoolVar(&o.resume, "resume", false, "keep the results of an interrupted run")
	flag.Parse()
	if flag.NArg() > 0 {
		return o, fmt.Errorf("unknown argument %s; see scripts/mutate --help", flag.Arg(0))
	}
	if o.jobs < 1 {
		return o, errors.New("--jobs has to be 1 or more")
	}
	o.only, err = regexp.Compile(only)
	return o, err
}

func run(ctx context.Context) error {
	o, err := parseOptions()
	if err != nil {
		return err
	}
	all, err := readLists("tests/mutants/*.txt")
	if err != nil {
		return err
	}
	chosen := choose(all, o)
	if len(chosen) == 0 {
		return errors.New("no mutant has that name or file")
	}
	for _, m := range chosen {
		if err := m.apply(); err != nil {
			return err
		}
	}
	if err := checkTests(chosen); err != nil {
		return err
	}
	if o.list {
		for _, m := range chosen {
			fmt.Printf("%-60s %s\n", m.name, m.place())
		}
		return nil
	}
	if err := checkAll(ctx, chosen, o.tags); err != nil || o.check {
		return err
	}
	return try(ctx, chosen, o)
}

// choose returns the mutants that were asked for, in the order of the lists.
func choose(all []*mutant, o options) []*mutant {
	chosen := slices.DeleteFunc(slices.Clone(all), func(m *mutant) bool {
		return !o.only.MatchString(m.name) && !o.only.MatchString(m.file)
	})
	if o.sample <= 0 || o.sample >= len(chosen) {
		return chosen
	}
	fmt.Printf("a sample of %d of %d mutants; --seed %d repeats it\n", o.sample, len(chosen), o.seed)
	random := rand.New(rand.NewPCG(o.seed, 0))
	random.Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
	chosen = chosen[:o.sample]
	slices.SortFunc(chosen, func(a, b *mutant) int { return a.number - b.number })
	return chosen
}

// try runs the mutants, prints a line for each as it ends, and then the score.
func try(ctx context.Context, chosen []*mutant, o options) error {
	work, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	kept, err := openResults(o.resume)
	if err != nil {
		return err
	}
	defer kept.close()
	var left []*mutant
	results := map[*mutant]result{}
	for _, m := range chosen {
		if r, ok := kept.of(m); ok {
			results[m] = r
			continue
		}
		left = append(left, m)
	}
	if len(results) > 0 {
		fmt.Printf("%d results are kept from the run before\n", len(results))
	}
	r := &runner{work: work, tags: o.tags}
	if err := r.build(ctx, left); err != nil {
		return err
	}
	if err := r.withoutMutants(ctx, left); err != nil {
		return err
	}

	var mu sync.Mutex
	next := make(chan *mutant)
	var workers sync.WaitGroup
	var failed error
	for range o.jobs {
		workers.Go(func() {
			for m := range next {
				got, err := r.try(ctx, m)
				mu.Lock()
				switch {
				case ctx.Err() != nil:
				case err != nil:
					failed = errors.Join(failed, err)
				default:
					results[m] = got
					fmt.Println(got.line(m))
					failed = errors.Join(failed, kept.keep(m, got))
				}
				mu.Unlock()
			}
		})
	}
	for _, m := range left {
		select {
		case next <- m:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(next)
	workers.Wait()
	if ctx.Err() != nil {
		return errors.New("interrupted; --resume goes on")
	}
	return errors.Join(failed, score(chosen, results))
}

// score prints how many of each area were killed, and names the survivors.
func score(chosen []*mutant, results map[*mutant]result) error {
	type count struct{ killed, all int }
	counts := map[string]count{}
	var areas, survivors []string
	var sum count
	for _, m := range chosen {
		got, ok := results[m]
		if !ok {
			continue
		}
		area := m.area()
		c, known := counts[area]
		if !known {
			areas = append(areas, area)
		}
		c.all++
		sum.all++
		if got.Killed {
			c.killed++
			sum.killed++
		} else {
			survivors = append(survivors, m.name+" ("+m.place()+")")
		}
		counts[area] = c
	}
	fmt.Printf("\n%-20s %8s %8s\n", "package", "killed", "mutants")
	for _, a := range areas {
		fmt.Printf("%-20s %8d %8d\n", a, counts[a].killed, counts[a].all)
	}
	fmt.Printf("%-20s %8d %8d\n", "all", sum.killed, sum.all)
	if len(survivors) > 0 {
		return fmt.Errorf("%d survived:\n  %s", len(survivors), strings.Join(survivors, "\n  "))
	}
	return nil
}
