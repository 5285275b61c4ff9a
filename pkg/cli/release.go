package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"

	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/gc/act"
	"github.com/reap-dev/reap/pkg/gc/report"
)

const releaseDescription = `Takes a finalizer off an object that is being deleted, after saying what that gives up. It is the last resort, when reap why shows that nothing else will end the wait. Without --finalizer it takes off the collector's own, foregroundDeletion or orphan. A finalizer of another controller has to be named.

A namespace also has finalizers in its spec, which are taken off through its subresource finalize: name them like the others.

It takes the finalizer off only if the object is still the one that it has shown. It works on any cluster; you need the right to patch the object, and for a finalizer in a namespace's spec that to update namespaces/finalize.`

const releaseExamples = `reap release deployments/web -n shop
reap release configmaps/settings --finalizer example.com/hold --yes
reap release crd/widgets.example.com -o json --yes`

// collectorFinalizers are those that the collector takes off by itself.
var collectorFinalizers = []string{metav1.FinalizerDeleteDependents, metav1.FinalizerOrphanDependents}

func releaseCommand() *cli.Command {
	flags, client := config.ClientFlags()
	return command(releaseExamples, &cli.Command{
		Name:        "release",
		Usage:       "take a stuck finalizer off an object that has been deleted",
		UsageText:   "reap release TYPE/NAME [--finalizer NAME] [--yes] [flags]",
		Description: releaseDescription,
		Flags: append(flags, namespaceFlag(), &cli.StringFlag{
			Name: "finalizer", Category: "Object", Usage: "`NAME` finalizer to take off (default: that of the collector)",
		}, yesFlag(), outputFlag()),
		Action: func(c *cli.Context) error {
			if err := checkNamed(c); err != nil {
				return err
			}
			format, err := checkOutput(c)
			if err != nil {
				return err
			}
			if err := checkConfirmable(c, "reap why"); err != nil {
				return err
			}
			server, err := connect(client)
			if err != nil {
				return err
			}
			objects, err := server.objects(c.Context, c.Args().Slice(), selection{namespace: cmp.Or(c.String("namespace"), server.namespace)})
			if err != nil {
				return failed(err)
			}
			if len(objects) != 1 {
				return fmt.Errorf("%s takes one object: a finalizer is taken off after a look at what that gives up; see '%[1]s --help'", c.Command.HelpName)
			}
			o := objects[0]
			inSpec, err := server.specFinalizers(c.Context, o)
			if err != nil {
				return failed(err)
			}
			finalizer, err := stuckFinalizer(o, inSpec, c.String("finalizer"))
			if err != nil {
				return failed(err)
			}
			r := report.NewRelease(o.named(), slices.Concat(o.metadata.Finalizers, inSpec), finalizer, server.dependents(c.Context, o))
			say(c.App.ErrWriter, "server      %s (from %s)\n", server.config.Host, server.source)
			if err := folded(c.App.ErrWriter, r.Print); err != nil {
				return failed(err)
			}
			if err := confirm(c, "Take the finalizer off?"); err != nil {
				return failed(err)
			}
			if slices.Contains(o.metadata.Finalizers, finalizer) {
				r.Left, err = server.takeOff(c.Context, o, finalizer)
			} else {
				r.Left, err = server.takeOffSpec(c.Context, o, finalizer)
			}
			if err != nil {
				return failed(err)
			}
			r.Released = true
			return failed(print(c.App.Writer, format, r))
		},
	})
}

// stuckFinalizer returns the finalizer that is to be taken off an object, or why there is none. inSpec are those of a namespace's spec.
func stuckFinalizer(o *object, inSpec []string, named string) (string, error) {
	has := slices.Concat(o.metadata.Finalizers, inSpec)
	what := o.named().String()
	if o.metadata.DeletionTimestamp == nil {
		return "", fmt.Errorf("%s has not been deleted, so no finalizer holds it; nothing was changed", what)
	}
	ours := slices.DeleteFunc(slices.Clone(has), func(f string) bool { return !slices.Contains(collectorFinalizers, f) })
	switch {
	case named != "" && !slices.Contains(has, named):
		text := fmt.Sprintf("%s has no finalizer %q", what, named)
		if n := config.Nearest(named, has); n != "" {
			text += fmt.Sprintf(" (did you mean %q?)", n)
		}
		return "", errors.New(text + finalizersText(o))
	case named != "":
		return named, nil
	case len(ours) == 0:
		return "", fmt.Errorf("%s has no finalizer of the collector%s", what, finalizersText(o))
	case len(ours) > 1:
		return "", fmt.Errorf("%s has both finalizers of the collector: name one of %s with --finalizer", what, strings.Join(ours, ", "))
	}
	return ours[0], nil
}

// finalizersText says which finalizers an object has, to be read after what it has not.
func finalizersText(o *object) string {
	switch {
	case len(o.metadata.Finalizers) > 0:
		return fmt.Sprintf("; it has %s: name one with --finalizer", strings.Join(o.metadata.Finalizers, ", "))
	case o.named().IsNamespace():
		return "; a namespace goes when it is empty: 'reap why namespaces/" + o.metadata.Name + "' says what is left in it"
	}
	return "; it has none, and goes when its grace period is over"
}

// dependents asks the collector who names an object as its owner; nil if none can be asked.
func (c *connection) dependents(ctx context.Context, o *object) *report.Objects {
	var w report.Why
	query := url.Values{"group": {o.resource.Group}, "resource": {o.resource.Resource}, "uid": {string(o.metadata.UID)}}
	if err := c.report(ctx, "why", query, &w); err != nil {
		return nil // what is given up can be said without
	}
	return &w.Dependents
}

// releaseRounds bounds how often a finalizer is taken off an object that changes meanwhile.
const releaseRounds = 5

// takeOff takes a finalizer off the object that was read, and no other, and returns the finalizers that are left. An
// object that changes meanwhile is read again: if it is the same one and still has the finalizer, that is what was to
// go.
func (c *connection) takeOff(ctx context.Context, o *object, finalizer string) (left []string, err error) {
	client, err := metadata.NewForConfig(c.config)
	if err != nil {
		return nil, err
	}
	actor := act.New(act.Clients{Metadata: client}, func() error { return nil }, func(act.Verb, act.Outcome) {})
	live := &act.Object{Resource: o.resource, Metadata: o.metadata}
	for range releaseRounds {
		outcome, err := actor.RemoveFinalizer(ctx, live, finalizer)
		if err != nil {
			return nil, c.failed(err)
		}
		left = slices.DeleteFunc(slices.Clone(live.Metadata.Finalizers), func(f string) bool { return f == finalizer })
		if outcome == act.Done {
			return left, nil
		}
		var is act.Existence
		live, is, err = actor.Read(ctx, o.resource, o.metadata.Namespace, o.metadata.Name, o.metadata.UID)
		switch {
		case err != nil:
			return nil, c.failed(err)
		case is == act.Absent:
			return nil, nil
		case !slices.Contains(live.Metadata.Finalizers, finalizer):
			return live.Metadata.Finalizers, nil // somebody else was faster
		}
	}
	return nil, fmt.Errorf("%s changes faster than its finalizer can be taken off; try again", o.named())
}
