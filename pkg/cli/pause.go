package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/user"
	"time"

	"github.com/urfave/cli/v2"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/wait"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/gc/pause"
	"github.com/reap-dev/reap/pkg/gc/report"
)

const pauseDescription = `Stops all writes of the collector until reap resume. The collector goes on watching, so that it knows what to do then. Users can go on deleting objects; foreground and orphaning deletions wait. A pause outlives restarts, and its time counts towards no deadline.

It is the ConfigMap ` + pause.Namespace + "/" + pause.Name + `: whoever may write that may pause.`

const pauseExamples = `reap pause --reason "restoring a backup"
reap status
reap resume`

const resumeDescription = `Ends a pause: the collector works through everything that has changed meanwhile.`

// confirmWithin bounds how long a command waits for the collector to have noticed.
const confirmWithin = 15 * time.Second

func pauseCommand() *cli.Command {
	flags, client := config.ClientFlags()
	return command(pauseExamples, &cli.Command{
		Name:        "pause",
		Usage:       "stop all writes of the collector until reap resume",
		UsageText:   "reap pause [--reason TEXT] [flags]",
		Description: pauseDescription,
		Flags: append(flags, &cli.StringFlag{
			Name: "reason", Category: "Pause", Usage: "`TEXT` why, for whoever looks at reap status",
		}),
		Action: func(c *cli.Context) error {
			return changePause(c, client, func(ctx context.Context, maps typedcorev1.ConfigMapsGetter, out io.Writer) (pause.State, bool, error) {
				s, changed, err := pause.Begin(ctx, maps, whoami(), c.String("reason"), time.Now())
				if err != nil || changed {
					return s, changed, err
				}
				say(out, "it is paused already%s\n", details(s))
				if reason := c.String("reason"); reason != "" {
					if s, changed, err = pause.Explain(ctx, maps, whoami(), reason); err == nil && changed {
						say(out, "its reason is now: %s\n", reason)
					}
				}
				return s, changed, err
			}, true)
		},
	})
}

func resumeCommand() *cli.Command {
	flags, client := config.ClientFlags()
	return command("reap resume", &cli.Command{
		Name:        "resume",
		Usage:       "end a pause of the collector",
		UsageText:   "reap resume [flags]",
		Description: resumeDescription,
		Flags:       flags,
		Action: func(c *cli.Context) error {
			return changePause(c, client, func(ctx context.Context, maps typedcorev1.ConfigMapsGetter, out io.Writer) (pause.State, bool, error) {
				s, changed, err := pause.End(ctx, maps, time.Now())
				switch {
				case err != nil:
				case changed:
					say(out, "it was paused%s\n", details(s))
				default:
					say(out, "it is not paused\n")
				}
				return s, changed, err
			}, false)
		},
	})
}

// changePause changes the pause and waits until the collector has noticed, so that
// nothing is written after the command has ended.
func changePause(c *cli.Context, client *config.Client, change func(context.Context, typedcorev1.ConfigMapsGetter, io.Writer) (state pause.State, changed bool, err error), paused bool) error {
	if err := noArguments(c); err != nil {
		return err
	}
	server, err := connect(client)
	if err != nil {
		return err
	}
	maps, err := typedcorev1.NewForConfig(server.config)
	if err != nil {
		return failed(err)
	}
	out := c.App.Writer
	state, changed, err := change(c.Context, maps, out)
	if err != nil {
		return failed(server.failed(err))
	}
	// The guard may pause the collector again as soon as it works.
	again := func(p *pause.State) bool { return !paused && p != nil && p.Since.Sub(state.Since) >= time.Second }
	var s report.Status
	var asking error
	err = wait.PollUntilContextTimeout(c.Context, 50*time.Millisecond, confirmWithin, true, func(ctx context.Context) (bool, error) {
		s = report.Status{} // what an answer does not mention is not set
		asking = server.report(ctx, "status", nil, &s)
		if asking != nil {
			return ctx.Err() == nil, nil // no answer in time is none yet
		}
		if !s.Running {
			return true, nil
		}
		return again(s.Pause) || (s.Pause != nil) == paused && (!paused || s.Busy == 0 && !s.Breaking), nil
	})
	word := map[bool]string{true: "paused", false: "not paused"}[paused]
	switch {
	case c.Context.Err() != nil:
		return failed(context.Cause(c.Context))
	case asking != nil && !changed:
		err := fmt.Errorf("nothing was changed, and the collector could not be asked whether it is %s: %w", word, asking)
		return &runError{err: err, code: exitIncomplete, print: func(stderr io.Writer) { printError(stderr, err) }}
	case err != nil:
		return failed(fmt.Errorf("recorded, but it has not taken effect within %s that the collector is %s; 'reap status' shows when it does", confirmWithin, word))
	case asking != nil:
		say(out, "recorded that the collector is %s, but could not ask the collector whether it has taken effect: %v\n", word, asking)
	case s.Elsewhere:
		say(out, "recorded that the collector is %s, but this server does not lead, and could not ask the one that does whether it has taken effect: 'reap status' on that server shows it\n", word)
	case !s.Running:
		say(out, "recorded that the collector is %s; it takes effect when one runs: %s\n", word, s.Absent)
	case again(s.Pause):
		say(out, "the collector worked, and is paused again%s\n", details(*s.Pause))
	case paused:
		say(out, "the collector is paused and writes nothing; 'reap resume' ends it\n")
	default:
		say(out, "the collector works\n")
	}
	return nil
}

// paused returns the pause of the collector; nil if there is none, or if the caller may not see it.
func (c *connection) paused(ctx context.Context) *pause.State {
	maps, err := typedcorev1.NewForConfig(c.config)
	if err != nil {
		return nil
	}
	if s, err := pause.Find(ctx, maps); err == nil && s.Paused {
		return &s
	}
	return nil
}

// details says for how long it has been paused, if anybody knows, by whom and why.
func details(s pause.State) string {
	text := ""
	if !s.Since.IsZero() {
		// The clock of whoever paused may be ahead of this one.
		text += " for " + duration.HumanDuration(max(0, time.Since(s.Since)))
	}
	if s.By != "" {
		text += ", by " + s.By
	}
	if s.Reason != "" {
		text += ": " + s.Reason
	}
	return text
}

// whoami is who runs this command, and where.
func whoami() string {
	name := "somebody"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name
}
