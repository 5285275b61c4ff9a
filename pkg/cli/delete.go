package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/metadata"

	"github.com/reap-dev/reap/pkg/bound"
	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/gc/act"
	"github.com/reap-dev/reap/pkg/gc/plan"
	"github.com/reap-dev/reap/pkg/gc/report"
)

const deleteDescription = `Deletes objects: it shows the plan of reap plan delete, asks, deletes, and waits until the last object of the plan is gone. While it waits, it names what holds the cascade up.

Ctrl-C ends only the wait: the cascade goes on in the cluster, and reap status --watch follows it. If standard input is no terminal, the command does nothing unless --yes is given. It deletes an object only if it is still the one in the plan.`

const deleteExamples = `reap delete deployments/web -n shop
reap delete namespaces/shop --yes --wait=false
reap delete replicasets -l app=web -n shop --cascade=foreground
reap delete jobs/import -n shop --cascade=orphan --yes -o json
reap delete widgets --all -n shop`

func deleteCommand() *cli.Command {
	flags, client := config.ClientFlags()
	flags = append(flags, serverSideFlag())
	flags = append(append(flags, selectionFlags()...), allFlag())
	return command(deleteExamples, &cli.Command{
		Name:        "delete",
		Usage:       "delete objects: show what goes with them, ask, and follow the cascade to its end",
		UsageText:   "reap delete (TYPE/NAME… | TYPE --all) [--cascade POLICY] [--yes] [--wait=false] [flags]",
		Description: deleteDescription,
		Flags: append(flags, cascadeFlag(), &cli.BoolFlag{
			Name: "wait", Value: true, Category: "Deletion", Usage: "wait until everything that is to go is gone; =false returns after the DELETE",
		}, yesFlag(), limitFlag(report.PlanLimit, "objects"), outputFlag()),
		Action: func(c *cli.Context) error { return runDelete(c, client) },
	})
}

func runDelete(c *cli.Context, client *config.Client) error {
	if err := checkNamed(c); err != nil {
		return err
	}
	policy, err := checkCascade(c)
	if err != nil {
		return err
	}
	limit, err := checkLimit(c)
	if err != nil {
		return err
	}
	format, err := checkOutput(c)
	if err != nil {
		return err
	}
	if err := checkConfirmable(c, "reap plan delete"); err != nil {
		return err
	}
	server, err := connect(client)
	if err != nil {
		return err
	}
	s := server.selected(c)
	s.types = s.labels != ""
	objects, err := server.objects(c.Context, c.Args().Slice(), s)
	if s.every && errors.Is(err, errNoObject) { // as with kubectl: a script that cleans up has nothing to do
		fmt.Fprintln(c.App.ErrWriter, "no object matches; nothing was deleted")
		if format == "text" {
			return nil
		}
		return failed(print(c.App.Writer, format, report.Deleted{Version: report.DeletedVersion, Server: server.config.Host, Policy: string(policy)}))
	}
	if err != nil {
		return failed(fmt.Errorf("%w; nothing was deleted", err))
	}
	d := &deletion{server: server, asker: newAsker(c, server), objects: objects, policy: policy, talk: c.App.ErrWriter}
	p, err := d.asker.plan(c.Context, objects, policy, limit)
	if err != nil {
		return failed(fmt.Errorf("%w; nothing was deleted", err))
	}
	say(d.talk, "server  %s (from %s)\n\n", server.config.Host, server.source)
	d.byReap, d.paused, d.absent = p.Basis.Source == report.FromCollector, p.Pause != nil && p.Pause.Paused, p.Basis.NoCollector
	d.flags, _ = sameServer(client)
	if err := server.describePlan(c.Context, &p); err != nil {
		return failed(fmt.Errorf("%w; nothing was deleted", err))
	}
	if err := print(d.talk, "text", p); err != nil {
		return failed(err)
	}
	if err := confirm(c, question(p)); err != nil {
		return failed(err)
	}
	return d.run(c, format, p)
}

// question asks about a plan.
func question(p report.Plan) string {
	text := fmt.Sprintf("\nDelete %s?", plural(p.Totals.Gone+p.Totals.Stuck, "object"))
	if p.Totals.Stuck > 0 {
		text += fmt.Sprintf(" %d of them would stay, Terminating.", p.Totals.Stuck)
	}
	switch {
	case p.Basis.NoCollector:
		text += " No collector runs: nothing follows the DELETE until one does."
	case p.Pause != nil && p.Pause.Paused:
		text += " The collector is paused: nothing follows the DELETE until reap resume."
	}
	return text
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// deletion is what reap delete does once it is confirmed.
type deletion struct {
	server  *connection
	asker   *asker
	objects []*object
	policy  metav1.DeletionPropagation
	talk    io.Writer // where people are told
	flags   string    // that name the server, for commands to copy
	byReap  bool      // a collector of reap answers
	paused  bool      // that collector was paused when the plan was made
	absent  bool      // no collector runs in the reap server
}

// run deletes, and waits.
func (d *deletion) run(c *cli.Context, format string, p report.Plan) error {
	began := time.Now()
	done := report.Deleted{Version: report.DeletedVersion, Server: d.server.config.Host, Policy: string(d.policy)}
	var f *follower
	if c.Bool("wait") {
		goes, err := d.goes(c, p)
		if err != nil {
			return failed(fmt.Errorf("%w; nothing was deleted", err))
		}
		ctx, stop := context.WithCancel(c.Context)
		defer stop()
		if f, err = d.server.follow(ctx, goes); err != nil {
			return failed(fmt.Errorf("cannot follow the cascade: %w; nothing was deleted; --wait=false deletes without waiting", err))
		}
	}
	refused := d.delete(c.Context, &done)
	var waiting error
	if f != nil && len(done.Requested) > 0 {
		waiting = d.wait(c.Context, f, &done)
	}
	done.Seconds, done.Held = time.Since(began).Seconds(), d.paused || d.absent
	if f != nil {
		left, _, _ := f.progress()
		done.Gone, done.Left = f.all.Len()-left, left
	}
	if err := print(c.App.Writer, format, done); err != nil {
		return failed(err)
	}
	if f == nil && (d.paused || d.absent) {
		say(d.talk, "%s\n", d.goesOn(nil))
	} else if f == nil && d.byReap {
		say(d.talk, "'reap status --watch%s' shows how the cascade gets on\n", d.flags)
	}
	return failed(errors.Join(refused, waiting))
}

// goes returns the objects that a plan says are deleted; all of them, however many were shown.
func (d *deletion) goes(c *cli.Context, p report.Plan) ([]report.Object, error) {
	if p.Omitted > 0 {
		var err error
		if p, err = d.asker.plan(c.Context, d.objects, d.policy, 0); err != nil {
			return nil, err
		}
	}
	var goes []report.Object
	for _, o := range p.Objects {
		if o.Fate == string(plan.Gone) || o.Fate == string(plan.Stuck) {
			goes = append(goes, o.Object)
		}
	}
	return goes, nil
}

const (
	// deletedAtOnce is how many objects are deleted side by side.
	deletedAtOnce = 8
	// answeredWithin is how long the command waits for the answers to its DELETEs once it is interrupted: without an
	// answer nobody knows whether the object was deleted.
	answeredWithin = 2 * time.Second
)

// An interrupt prevents a DELETE from being sent (errNotAsked), also from being sent again to a server that was busy. The answer to one
// that was sent may not come (errNotAnswered).
var (
	errNotAsked    = errors.New("interrupted before the server was asked")
	errNotAnswered = fmt.Errorf("interrupted, and the server has not answered within %s: whether it was deleted is unknown; ask with reap why", answeredWithin)
)

// delete deletes what was asked for, each object only if it is the one that was shown. It says at once what was not deleted,
// since the cascade of the others may take long; the error only counts that.
func (d *deletion) delete(ctx context.Context, done *report.Deleted) error {
	client, err := metadata.NewForConfig(bound.Writes(d.server.config, func(sent context.Context) (context.Context, context.CancelFunc, error) {
		if ctx.Err() != nil {
			return nil, nil, errNotAsked
		}
		return sent, func() {}, nil
	}))
	if err != nil {
		return err
	}
	answers, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(answeredWithin, giveUp) })()
	bar := newWriteBar(d.talk, "deleting", len(d.objects))
	defer func() { _ = bar.Finish() }() // off the terminal
	var mu sync.Mutex                   // of done, and of the terminal's line
	var pool errgroup.Group
	pool.SetLimit(deletedAtOnce)
	for _, o := range d.objects {
		pool.Go(func() error {
			options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &o.metadata.UID}}
			if d.policy != "" {
				options.PropagationPolicy = &d.policy
			}
			err := errNotAsked
			if ctx.Err() == nil {
				err = client.Resource(o.resource).Namespace(o.metadata.Namespace).Delete(answers, o.metadata.Name, options)
			}
			switch {
			case act.IsNotFound(err, o.resource.GroupResource(), o.metadata.Name):
				err = nil // the cascade of another object has taken it since it was read, or somebody else has
			case errors.Is(err, errNotAsked):
				err = errNotAsked
			case err != nil && answers.Err() != nil && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown:
				err = errNotAnswered
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				_ = bar.Clear() // it draws itself below the error
				printError(d.talk, fmt.Errorf("deleting %s: %w", o.named(), err))
				done.Failed = append(done.Failed, report.NotDeleted{Object: o.named(), Error: err.Error(), Unknown: errors.Is(err, errNotAnswered)})
			} else {
				done.Requested = append(done.Requested, o.named())
			}
			_ = bar.Add(1)
			return nil
		})
	}
	_ = pool.Wait() // each error has been noted
	slices.SortFunc(done.Requested, func(a, b report.Object) int { return strings.Compare(a.String(), b.String()) })
	slices.SortFunc(done.Failed, func(a, b report.NotDeleted) int { return strings.Compare(a.Object.String(), b.Object.String()) })
	if len(done.Failed) > 0 {
		return fmt.Errorf("deleting failed for %d of %s", len(done.Failed), plural(len(d.objects), "object"))
	}
	return nil
}

const (
	drawnEvery = 200 * time.Millisecond
	// toldEvery is how often a log, which is no terminal, is told what is left.
	toldEvery = 10 * time.Second
	// heldAfter is how long nothing goes before it is said what holds it.
	heldAfter = 2 * time.Second
)

// wait shows how the cascade gets on until nothing is left but objects that stay because a DELETE was refused.
func (d *deletion) wait(ctx context.Context, f *follower, done *report.Deleted) error {
	b := newBlock(d.talk)
	defer b.clear()
	tick := time.NewTicker(drawnEvery)
	defer tick.Stop()
	var pace pace
	told := time.Now()
	for {
		now := time.Now()
		left, held, count := f.progress()
		kept := 0
		if len(done.Failed) > 0 {
			kept = f.kept(done.Requested)
		}
		if left == kept {
			return nil
		}
		trouble, over := f.trouble(now)
		if over {
			return fmt.Errorf("%w; %s", d.server.failed(trouble), d.goesOn(held))
		}
		gone := f.all.Len() - left
		rate, stalled := pace.at(gone, now)
		if stalled >= heldAfter {
			rate = 0
		}
		lines := []string{progressLine(gone, f.all.Len()-kept, rate, b.columns())}
		if err := trouble; err != nil {
			lines = append(lines, "the server does not answer; asking again: "+oneLine(err))
		} else if stalled >= heldAfter {
			if d.paused || d.absent {
				lines = append(lines, d.goesOn(nil))
			}
			lines = append(lines, heldLines(held, count, left-kept)...)
		}
		if b != nil {
			b.draw(lines)
		} else if now.Sub(told) >= toldEvery {
			told = now
			say(d.talk, "%s\n", strings.Join(lines, "; "))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.New("interrupted: " + d.goesOn(held))
		}
	}
}

// goesOn says that a cascade does not need this command, and how to follow it again.
func (d *deletion) goesOn(held []report.Holder) string {
	text := "the cascade goes on in the cluster"
	switch {
	case d.paused:
		text = "the collector was paused when the plan was made: nothing follows until 'reap resume" + d.flags + "'"
	case d.absent:
		text = "no collector runs: nothing follows until one does"
	}
	if d.byReap {
		text += "; 'reap status --watch" + d.flags + "' follows it"
	}
	if len(held) > 0 {
		text += "; 'reap why " + held[0].Object.String() + d.flags + "' says more about what holds it"
	}
	return text
}

// progressLine is how far a cascade has come.
func progressLine(gone, all int, rate float64, columns int) string {
	line := fmt.Sprintf("%s %d of %s gone", report.Bar(gone, all, max(10, min(40, columns/3))), gone, plural(all, "object"))
	if rate >= 1 && gone < all {
		line += fmt.Sprintf(", %.0f/s, %s to go", rate, duration.HumanDuration(time.Duration(float64(all-gone)/rate*float64(time.Second))))
	}
	return line
}

// heldLines say what holds a cascade that does not get on.
func heldLines(held []report.Holder, count, left int) []string {
	if count == 0 {
		return []string{fmt.Sprintf("waiting for %s; nothing with a finalizer of its own is among them", plural(left, "object"))}
	}
	var lines []string
	for _, h := range held {
		lines = append(lines, fmt.Sprintf("held by %s: it has the finalizer %s", h.Object, strings.Join(h.Finalizers, ", ")))
	}
	if more := count - len(held); more > 0 {
		lines = append(lines, fmt.Sprintf("and by %d more", more))
	}
	return lines
}

// pace is how fast something goes.
type pace struct {
	seen  []seen // of the last seconds
	moved time.Time
	last  int
}

type seen struct {
	at time.Time
	n  int
}

// paceOver is how much of the past counts for the rate.
const paceOver = 5 * time.Second

// at notes that n are done, and returns how many a second lately, and for how long nothing has moved.
func (p *pace) at(n int, now time.Time) (rate float64, stalled time.Duration) {
	if p.moved.IsZero() || n != p.last {
		p.moved, p.last = now, n
	}
	p.seen = append(p.seen, seen{now, n})
	for len(p.seen) > 1 && now.Sub(p.seen[0].at) > paceOver {
		p.seen = p.seen[1:]
	}
	first := p.seen[0]
	if passed := now.Sub(first.at).Seconds(); passed > 0 {
		rate = float64(n-first.n) / passed
	}
	return rate, now.Sub(p.moved)
}
