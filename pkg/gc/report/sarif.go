package report

import (
	"fmt"
	"io"

	sarif "github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"

	"github.com/reap-dev/reap/pkg/gc/lint"
)

// rules are the codes' descriptions in SARIF.
var rules = map[lint.Code]string{
	lint.Dangling:        "An ownerReference names an owner that does not exist.",
	lint.WrongUID:        "An ownerReference names an owner by another UID than the object of that name has.",
	lint.WrongNamespace:  "An ownerReference names an owner in another namespace.",
	lint.ClusterScoped:   "A cluster-scoped object names an owner of a namespaced kind.",
	lint.UnknownKind:     "An ownerReference names an owner of a kind that no server serves.",
	lint.UnknownVersion:  "An ownerReference names an owner in a version that is not served.",
	lint.Ring:            "Objects own each other.",
	lint.UnreachableRing: "Objects own each other, and nothing else owns them.",
	lint.TwoControllers:  "More than one ownerReference has controller: true.",
	lint.NeverCollected:  "The end of an owner is not noticed, or the owner waits for something that never goes.",
	lint.StuckFinalizer:  "A finalizer has kept a deleted object for long.",
}

// PrintSARIF writes the findings in SARIF 2.1.0.
func (l Lint) PrintSARIF(out io.Writer, version string) error {
	run := sarif.NewRunWithInformationURI("reap lint", "https://github.com/reap-dev/reap")
	run.Tool.Driver.WithVersion(version)
	for _, c := range lint.Codes() {
		run.AddRule(string(c)).WithDescription(rules[c])
	}
	for i := range l.Findings {
		f := &l.Findings[i]
		level := map[string]string{"collected": "error", "stuck": "error"}[f.Effect]
		if level == "" {
			level = "warning"
		}
		message := fmt.Sprintf("%s: %s; %s. To mend it: %s.", f.Object, f.Text, f.Will, f.Mend)
		where := sarif.NewLocation().AddLogicalLocation(
			sarif.NewLogicalLocation().WithFullyQualifiedName(f.Object.String()).WithName(f.Object.Name).WithKind("resource"))
		if f.File != "" {
			where.WithPhysicalLocation(sarif.NewPhysicalLocation().WithArtifactLocation(sarif.NewSimpleArtifactLocation(f.File)))
		}
		result := run.CreateResultForRule(string(f.Code))
		result.WithLevel(level).WithMessage(sarif.NewTextMessage(message)).AddLocation(where).WithRuleIndex(run.GetRuleIndex(string(f.Code)))
	}
	return sarif.NewReport().AddRun(run).PrettyWrite(out)
}
