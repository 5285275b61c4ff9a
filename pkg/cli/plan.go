package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/gc/listing"
	"github.com/reap-dev/reap/pkg/gc/plan"
	"github.com/reap-dev/reap/pkg/gc/report"
)

const planDescription = `Says what a command would do, and changes nothing.`

const planExamples = `reap plan delete deployments/web -n shop`

const planDeleteDescription = `Says what deleting objects would do: which objects go and in which order, which stay and for which other owner, which lose a reference, what blocks, and what ends by a timeout. It writes nothing.

The running collector answers: it makes its decisions on a copy of what it knows. The end of the plan names what cannot be foretold, such as what a controller does. Where no collector of reap answers, the command lists the cluster's metadata and follows the rules of Kubernetes' own collector.`

const planDeleteExamples = `reap plan delete deployments/web -n shop
reap plan delete namespace/shop
reap plan delete replicasets/web-1 pods/debug -n shop --cascade=foreground
reap plan delete crd/widgets.example.com -o json
reap plan delete pods -l app=web -n shop
reap plan delete -f manifests/ --cascade=orphan
reap plan delete widgets --all -n shop`

func planCommand() *cli.Command {
	return command(planExamples, &cli.Command{
		Name:        "plan",
		Usage:       "say what deleting an object would do, and change nothing",
		UsageText:   "reap plan delete TYPE/NAME... [flags]",
		Description: planDescription,
		Subcommands: []*cli.Command{planDeleteCommand()},
		Action:      showSubcommands,
	})
}

func planDeleteCommand() *cli.Command {
	flags, client := config.ClientFlags()
	flags = append(flags, serverSideFlag())
	flags = append(append(flags, selectionFlags()...), allFlag())
	return command(planDeleteExamples, &cli.Command{
		Name:        "delete",
		Usage:       "say what deleting objects would do",
		UsageText:   "reap plan delete (TYPE/NAME… | TYPE --all) [flags]",
		Description: planDeleteDescription,
		Flags:       append(flags, cascadeFlag(), limitFlag(report.PlanLimit, "objects"), outputFlag()),
		Action: func(c *cli.Context) error {
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
			if format != "text" && !c.IsSet("limit") {
				limit = 0 // programs want all
			}
			server, err := connect(client)
			if err != nil {
				return err
			}
			objects, err := server.objects(c.Context, c.Args().Slice(), server.selected(c))
			if err != nil {
				return failed(err) // a plan for a part would be another plan
			}
			p, err := newAsker(c, server).plan(c.Context, objects, policy, limit)
			if err != nil {
				return failed(err)
			}
			if limit > 0 { // else a report for programs would read everything
				if err := server.describePlan(c.Context, &p); err != nil {
					return failed(err)
				}
			}
			return failed(print(c.App.Writer, format, p))
		},
	})
}

// plan says what deleting objects with a propagation policy would do; an empty policy
// leaves it to each resource. limit is how many objects are listed at the most; 0 is all.
func (a *asker) plan(ctx context.Context, objects []*object, policy metav1.DeletionPropagation, limit int) (p report.Plan, err error) {
	q := report.PlanRequest{Policy: string(policy), Limit: limit}
	for _, o := range objects {
		q.Targets = append(q.Targets, o.key())
	}
	a.bound(len(q.Targets), "plans the deletion")
	err = a.ask(ctx, "plan", q.Query(), &p, func(l *listing.Result, b report.Basis) error {
		for _, o := range objects {
			if _, ok := l.Graph.View(o.key()); !ok {
				return fmt.Errorf("the list does not show %s %s: it has gone, or its resource cannot be listed, watched and deleted", o.resource.GroupResource(), o.metadata.Name)
			}
		}
		rules := plan.Rules{Kubernetes: b.Rules == report.RulesOfKubernetes, Rings: true, Disabled: a.disabled}
		res, err := plan.Take(l.Graph, q.Targets).Delete(ctx, policy, rules, l.Now)
		if err != nil {
			return err
		}
		p = report.PlanOf(res, q, l.Now)
		p.Basis = b
		return nil
	})
	return p, err
}

// cascades are what --cascade takes, and the policy that each stands for.
var cascades = map[string]metav1.DeletionPropagation{
	"background": metav1.DeletePropagationBackground,
	"foreground": metav1.DeletePropagationForeground,
	"orphan":     metav1.DeletePropagationOrphan,
	"default":    "",
}

func cascadeFlag() *cli.StringFlag {
	return &cli.StringFlag{
		Name: "cascade", Value: "background", DefaultText: "background", Category: "Deletion",
		Usage: "`POLICY` background, foreground or orphan, as kubectl delete takes it; default: that of a DELETE without a policy, which is orphan for a Job or ReplicationController",
	}
}

// checkCascade returns the policy that --cascade stands for, or what is wrong with it.
func checkCascade(c *cli.Context) (metav1.DeletionPropagation, error) {
	value := c.String("cascade")
	if policy, known := cascades[value]; known {
		return policy, nil
	}
	text := fmt.Sprintf("--cascade has to be background, foreground, orphan or default, not %q", value)
	if n := config.Nearest(value, []string{"background", "foreground", "orphan", "default"}); n != "" {
		text += fmt.Sprintf(" (did you mean %s?)", n)
	}
	return "", errors.New(text)
}
