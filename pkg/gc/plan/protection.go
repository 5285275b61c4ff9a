package plan

import (
	"slices"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// namespaceController empties namespaces; its name in --disable.
const namespaceController = "namespace"

// disabled is true of a controller that does not run.
func (r *run) disabled(controller string) bool {
	return slices.Contains(r.rules.Disabled, controller)
}

// held is true if a finalizer that is not the collector's keeps an object that is being
// deleted, and no controller of the server is known to take it off.
func (r *run) held(t *thing, rec *graph.Record) bool {
	return rec.OtherFinalizers && !r.unprotected(t, rec)
}

// unprotected is true if a controller takes off the one finalizer that holds a deleted
// object. Whether anything still uses a volume or a claim is not in its metadata: it is
// taken to be unused, since a plan that says too little would do more harm than one that says
// too much; Result.Notes says so.
func (r *run) unprotected(t *thing, rec *graph.Record) bool {
	return slices.ContainsFunc(t.keys, func(k graph.Key) bool {
		p, is := rec.Protection(k.Resource)
		return is && !r.disabled(p.Controller) && (p.Finalizer != graph.JobTrackingFinalizer || tracked(rec))
	})
}

// tracked is true of a pod that the Job controller looks after: its own, or one without a controller.
func tracked(pod *graph.Record) bool {
	i := slices.IndexFunc(pod.References, func(ref graph.Reference) bool { return ref.Controller == graph.True })
	return i < 0 || pod.References[i].Kind == "Job" && pod.References[i].APIVersion == "batch/v1"
}
