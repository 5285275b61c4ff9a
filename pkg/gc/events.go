package gc

// An event is a Warning that users see at an object, by its reason. docs/events.md lists all of them.
type event struct {
	reason string
	// when says what has happened, and do what a user does about it.
	when, do string
}

// allEvents are those that newEvent has made, in the order of their declaration.
var allEvents []event

func newEvent(e event) event {
	allEvents = append(allEvents, e)
	return e
}

var (
	ringBroken = newEvent(event{
		reason: "CycleBroken",
		when: "Objects in foreground deletion blocked each other in a ring, so that none could go. The collector has set " +
			"`blockOwnerDeletion: false` on the references within the ring, and the objects go. The first hundred members of a ring get the event.",
		do: "Nothing for these objects. If the ring comes back, find out who writes owner references in both directions.",
	})
	deletionTimedOut = newEvent(event{
		reason: "SynchronousDeletionTimedOut",
		when: "A foreground deletion made no progress for as long as `--gc-sync-timeout` and `--gc-sync-timeout-per-dependent` allow. " +
			"The object has been deleted before the dependents that the message names; these are collected next.",
		do: "Look at the dependents that the message names with `reap why`: a finalizer that nobody takes off, or a kind that nobody " +
			"serves, keeps them. The annotation `gc.reap.dev/sync-timeout` on an object sets another limit, or `never`.",
	})
	orphaningWaits = newEvent(event{
		reason: "OrphaningWaits",
		when: "The object was deleted with policy Orphan, and a resource that may hold dependents of it cannot be listed, or a dependent cannot " +
			"be changed because the API server refuses it (a quota, a LimitRange, a webhook). The object stays until all dependents have been " +
			"found and freed.",
		do: "Make the resource in the message readable again, or remove what serves it: `reap status` says how. Mend or delete the dependent " +
			"that the message names. `--gc-orphan-timeout` bounds the wait.",
	})
	orphaningTimedOut = newEvent(event{
		reason: "OrphaningTimedOut",
		when: "An orphaning deletion has waited for `--gc-orphan-timeout`, and a resource still cannot be listed or a dependent still cannot be " +
			"changed. The object has been deleted; some dependents may still name it. They are freed when they turn up, as long as this process runs; a " +
			"process that starts later collects them.",
		do: "Make the resource readable again before the server is restarted. If it has been restarted, `reap pause`, make the resource " +
			"readable, and remove the references that `reap lint -A` finds.",
	})
	ownerInWrongNamespace = newEvent(event{
		reason: "OwnerRefInvalidNamespace",
		when: "A reference names an owner that cannot be an owner: one in another namespace than its dependent, or one of a namespaced " +
			"kind for a cluster-scoped object. Each such reference is reported once.",
		do: "Correct or remove the reference: `reap lint -A` lists all of them and says what will become of their objects.",
	})
	guardPaused = newEvent(event{
		reason: "GuardPaused",
		when: "More deletions than `--gc-guard` allows within ten minutes would have rested on lookups alone: this process has not seen " +
			"their owners being deleted. The collector has paused itself. The event is about the ConfigMap that holds the pause.",
		do: "Find out why those owners are absent: a restore, a lost database, or a long cascade that a restart interrupted. `reap status` " +
			"lists what has been deleted and what would be next. Then `reap relink -A` mends references, and `reap resume` lets the collector go on.",
	})
)
