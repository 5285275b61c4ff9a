package storage

import (
	"maps"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage/etcd3"
	etcdfeature "k8s.io/apiserver/pkg/storage/feature"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
)

// entry is a function of the API server's suite, as the tests of its own store call it.
type entry struct {
	name string
	// gates are set while it runs. The process has one set of gates: an entry with gates runs alone, the others at the same time.
	gates gates
	run   func(*testing.T, engine)
}

type gates map[featuregate.Feature]bool

// set sets the gates for the rest of the test.
func (g gates) set(t *testing.T) {
	t.Helper()
	for feature, on := range g {
		featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, feature, on)
	}
}

// eachWayToList runs a test with lists in pages and with streamed ones.
func eachWayToList(name string, more gates, run func(t *testing.T, e engine, streamed bool)) []entry {
	var both []entry
	for _, streamed := range []bool{false, true} {
		name := name
		if streamed {
			name += "Streamed"
		}
		all := gates{features.EtcdRangeStream: streamed}
		maps.Copy(all, more)
		both = append(both, entry{name: name, gates: all, run: func(t *testing.T, e engine) {
			before := etcdfeature.DefaultFeatureSupportChecker // it remembers what a datastore could not do
			etcdfeature.DefaultFeatureSupportChecker = etcdfeature.NewDefaultFeatureSupportChecker()
			t.Cleanup(func() { etcdfeature.DefaultFeatureSupportChecker = before })
			run(t, e, streamed)
		}})
	}
	return both
}

// suite is all that the API server demands of its store.
var suite = slices.Concat(writes, deletions, lists, watches)

var writes = []entry{
	{name: "Create", run: func(t *testing.T, e engine) {
		s := e.plain(t)
		storagetesting.RunTestCreate(t.Context(), t, s, s.stored)
	}},
	{name: "CreateWithTTL", run: func(t *testing.T, e engine) { storagetesting.RunTestCreateWithTTL(t.Context(), t, e.plain(t)) }},
	{name: "CreateWithKeyExist", run: func(t *testing.T, e engine) { storagetesting.RunTestCreateWithKeyExist(t.Context(), t, e.plain(t)) }},
	{name: "Get", run: func(t *testing.T, e engine) {
		s := e.plain(t)
		s.client.Lease = longer{s.client.Lease} // it reads what it has made for a second
		storagetesting.RunTestGet(t.Context(), t, s)
	}},
	{name: "GuaranteedUpdate", run: func(t *testing.T, e engine) {
		s := e.plain(t)
		storagetesting.RunTestGuaranteedUpdate(t.Context(), t, s, s.stored)
	}},
	{name: "GuaranteedUpdateWithTTL", run: func(t *testing.T, e engine) {
		storagetesting.RunTestGuaranteedUpdateWithTTL(t.Context(), t, e.plain(t))
	}},
	{name: "GuaranteedUpdateChecksStoredData", run: func(t *testing.T, e engine) {
		storagetesting.RunTestGuaranteedUpdateChecksStoredData(t.Context(), t, e.plain(t))
	}},
	{name: "GuaranteedUpdateWithConflict", run: func(t *testing.T, e engine) {
		storagetesting.RunTestGuaranteedUpdateWithConflict(t.Context(), t, e.plain(t))
	}},
	{name: "GuaranteedUpdateWithSuggestionAndConflict", run: func(t *testing.T, e engine) {
		storagetesting.RunTestGuaranteedUpdateWithSuggestionAndConflict(t.Context(), t, e.plain(t))
	}},
	{name: "TransformationFailure", run: func(t *testing.T, e engine) {
		storagetesting.RunTestTransformationFailure(t.Context(), t, e.plain(t))
	}},
	{name: "KeySchema", run: func(t *testing.T, e engine) { storagetesting.RunTestKeySchema(t.Context(), t, e.plain(t)) }},
	{name: "Stats", run: func(t *testing.T, e engine) {
		s := e.plain(t)
		storagetesting.RunTestStats(t.Context(), t, s, s.codec, s.transformer, false)
	}},
	{name: "StatsWithSizes", run: func(t *testing.T, e engine) {
		s := e.plain(t)
		if err := s.EnableResourceSizeEstimation(s.keys); err != nil {
			t.Fatal(err)
		}
		storagetesting.RunTestStats(t.Context(), t, s, s.codec, s.transformer, true)
	}},
	{name: "CompactRevision", run: func(t *testing.T, e engine) {
		s := e.plain(t)
		storagetesting.RunTestCompactRevision(t.Context(), t, s, s.write, s.compact)
	}},
}

var deletions = []entry{
	{name: "UnconditionalDelete", run: func(t *testing.T, e engine) { storagetesting.RunTestUnconditionalDelete(t.Context(), t, e.plain(t)) }},
	{name: "ConditionalDelete", run: func(t *testing.T, e engine) { storagetesting.RunTestConditionalDelete(t.Context(), t, e.plain(t)) }},
	{name: "DeleteWithSuggestion", run: func(t *testing.T, e engine) { storagetesting.RunTestDeleteWithSuggestion(t.Context(), t, e.plain(t)) }},
	{name: "DeleteWithSuggestionAndConflict", run: func(t *testing.T, e engine) {
		storagetesting.RunTestDeleteWithSuggestionAndConflict(t.Context(), t, e.plain(t))
	}},
	{name: "DeleteWithConflict", run: func(t *testing.T, e engine) { storagetesting.RunTestDeleteWithConflict(t.Context(), t, e.plain(t)) }},
	{name: "DeleteWithSuggestionOfDeletedObject", run: func(t *testing.T, e engine) {
		storagetesting.RunTestDeleteWithSuggestionOfDeletedObject(t.Context(), t, e.plain(t))
	}},
	{name: "ValidateDeletionWithSuggestion", run: func(t *testing.T, e engine) {
		storagetesting.RunTestValidateDeletionWithSuggestion(t.Context(), t, e.plain(t))
	}},
	{name: "ValidateDeletionWithOnlySuggestionValid", run: func(t *testing.T, e engine) {
		storagetesting.RunTestValidateDeletionWithOnlySuggestionValid(t.Context(), t, e.plain(t))
	}},
	{name: "PreconditionalDeleteWithSuggestion", run: func(t *testing.T, e engine) {
		storagetesting.RunTestPreconditionalDeleteWithSuggestion(t.Context(), t, e.plain(t))
	}},
	{name: "PreconditionalDeleteWithOnlySuggestionPass", run: func(t *testing.T, e engine) {
		storagetesting.RunTestPreconditionalDeleteWithOnlySuggestionPass(t.Context(), t, e.plain(t))
	}},
	{name: "DeleteOfWhatCanBeDecodedAgain", run: func(t *testing.T, e engine) {
		codec := &fallible{Codec: newCodec()}
		s := e.with(t, codec, storagetesting.NewPrefixTransformer([]byte(prefix), false))
		storagetesting.RunTestDeleteWithConflictAndMissingExpectedTransformOrDecodeError(t.Context(), t, s, codec.setFailing)
	}},
	{name: "DeleteOfWhatCannotBeDecoded", run: func(t *testing.T, e engine) {
		codec := &fallible{Codec: newCodec()}
		s := e.with(t, codec, storagetesting.NewPrefixTransformer([]byte(prefix), false))
		storagetesting.RunTestDeleteExpectedTransformOrDecodeError(t.Context(), t, s, codec.setFailing)
	}},
	{name: "DeleteOfWhatCannotBeTransformed", run: func(t *testing.T, e engine) {
		transformer := &fallible{Transformer: storagetesting.NewPrefixTransformer([]byte(prefix), false)}
		storagetesting.RunTestDeleteExpectedTransformOrDecodeError(t.Context(), t, e.with(t, newCodec(), transformer), transformer.setFailing)
	}},
	{name: "DeleteWithSuggestionOfWhatCanBeDecoded", run: func(t *testing.T, e engine) {
		storagetesting.RunTestDeleteWithSuggestionAndMissingExpectedTransformOrDecodeError(t.Context(), t, e.plain(t))
	}},
}

var lists = slices.Concat([]entry{
	{name: "ListPaging", run: func(t *testing.T, e engine) { storagetesting.RunTestListPaging(t.Context(), t, e.plain(t)) }},
	{name: "GetListNonRecursive", run: func(t *testing.T, e engine) {
		s := e.plain(t)
		storagetesting.RunTestGetListNonRecursive(t.Context(), t, s.write, s)
	}},
	{name: "GetListRecursivePrefix", run: func(t *testing.T, e engine) {
		storagetesting.RunTestGetListRecursivePrefix(t.Context(), t, e.plain(t))
	}},
	{name: "GetListWithErrorAggregation", gates: gates{features.AllowUnsafeMalformedObjectDeletion: true}, run: func(t *testing.T, e engine) {
		s := e.plain(t)
		s.Interface = etcd3.NewStoreWithUnsafeCorruptObjectDeletion(s.Interface, schema.GroupResource{Resource: "pods"})
		storagetesting.RunTestGetListWithErrorAggregation(t.Context(), t, s, corrupt(t))
	}},
	{name: "GetListWithoutErrorAggregation", gates: gates{features.AllowUnsafeMalformedObjectDeletion: false}, run: func(t *testing.T, e engine) {
		storagetesting.RunTestGetListWithoutErrorAggregation(t.Context(), t, e.plain(t), corrupt(t))
	}},
	{name: "ListContinuation", gates: gates{features.ListFromCacheSnapshot: false}, run: func(t *testing.T, e engine) { // it reads a key of its own
		s := e.plain(t)
		storagetesting.RunTestListContinuation(t.Context(), t, s, s.calls)
	}},
	{name: "ListContinuationWithFilter", gates: gates{features.ListFromCacheSnapshot: false}, run: func(t *testing.T, e engine) {
		s := e.plain(t)
		storagetesting.RunTestListContinuationWithFilter(t.Context(), t, s, s.calls)
	}},
	{name: "ListPaginationRareObject", gates: gates{features.ListFromCacheSnapshot: false}, run: func(t *testing.T, e engine) {
		s := e.plain(t)
		storagetesting.RunTestListPaginationRareObject(t.Context(), t, s, s.calls)
	}},
	{name: "ListInconsistentContinuation", run: func(t *testing.T, e engine) {
		s := e.plain(t)
		storagetesting.RunTestListInconsistentContinuation(t.Context(), t, s, s.compact)
	}},
	{name: "ListResourceVersionMatch", run: func(t *testing.T, e engine) {
		storagetesting.RunTestListResourceVersionMatch(t.Context(), t, e.plain(t))
	}},
	{name: "NamespaceScopedList", run: func(t *testing.T, e engine) { storagetesting.RunTestNamespaceScopedList(t.Context(), t, e.plain(t)) }},
}, eachWayToList("List", nil, func(t *testing.T, e engine, streamed bool) {
	s := e.plain(t)
	storagetesting.RunTestList(t.Context(), t, s, s.compact, false, s.lists)
	if n := s.reads.GetStreamReadsAndReset(); (n > 0) != streamed {
		t.Errorf("%d lists were streamed", n)
	}
}), eachWayToList("ConsistentList", nil, func(t *testing.T, e engine, _ bool) {
	s := e.plain(t)
	storagetesting.RunTestConsistentList(t.Context(), t, s, s.write, false, true, false)
}))

var watches = slices.Concat([]entry{
	{name: "Watch", run: func(t *testing.T, e engine) { storagetesting.RunTestWatch(t.Context(), t, e.plain(t)) }},
	{name: "ClusterScopedWatch", run: func(t *testing.T, e engine) { storagetesting.RunTestClusterScopedWatch(t.Context(), t, e.plain(t)) }},
	{name: "NamespaceScopedWatch", run: func(t *testing.T, e engine) { storagetesting.RunTestNamespaceScopedWatch(t.Context(), t, e.plain(t)) }},
	{name: "DeleteTriggerWatch", run: func(t *testing.T, e engine) { storagetesting.RunTestDeleteTriggerWatch(t.Context(), t, e.plain(t)) }},
	{name: "WatchFromZero", run: func(t *testing.T, e engine) {
		s := e.plain(t)
		storagetesting.RunTestWatchFromZero(t.Context(), t, s, s.compact)
	}},
	{name: "WatchFromNonZero", run: func(t *testing.T, e engine) { storagetesting.RunTestWatchFromNonZero(t.Context(), t, e.plain(t)) }},
	{name: "DelayedWatchDelivery", run: func(t *testing.T, e engine) { storagetesting.RunTestDelayedWatchDelivery(t.Context(), t, e.plain(t)) }},
	{name: "WatchError", run: func(t *testing.T, e engine) { storagetesting.RunTestWatchError(t.Context(), t, e.plain(t)) }},
	{name: "WatchContextCancel", run: func(t *testing.T, e engine) { storagetesting.RunTestWatchContextCancel(t.Context(), t, e.plain(t)) }},
	{name: "WatcherTimeout", run: func(t *testing.T, e engine) { storagetesting.RunTestWatcherTimeout(t.Context(), t, e.plain(t)) }},
	{name: "WatchDeleteEventObjectHaveLatestRV", run: func(t *testing.T, e engine) {
		storagetesting.RunTestWatchDeleteEventObjectHaveLatestRV(t.Context(), t, e.plain(t))
	}},
	{name: "WatchInitializationSignal", run: func(t *testing.T, e engine) {
		storagetesting.RunTestWatchInitializationSignal(t.Context(), t, e.plain(t))
	}},
	{name: "ProgressNotify", run: func(t *testing.T, e engine) {
		s := e.plain(t)
		storagetesting.RunOptionalTestProgressNotify(t.Context(), t, s, s.write)
	}},
	{name: "WatchWithUnsafeDelete", gates: gates{features.AllowUnsafeMalformedObjectDeletion: true}, run: func(t *testing.T, e engine) {
		storagetesting.RunTestWatchWithUnsafeDelete(t.Context(), t, e.plain(t), corrupt(t))
	}},
	{name: "WatchDispatchBookmarkEvents", run: func(t *testing.T, e engine) {
		storagetesting.RunTestWatchDispatchBookmarkEvents(t.Context(), t, e.plain(t), false)
	}},
	{name: "SendInitialEventsBackwardCompatibility", run: func(t *testing.T, e engine) {
		storagetesting.RunSendInitialEventsBackwardCompatibility(t.Context(), t, e.plain(t))
	}},
	{name: "WatchErrorIsBlockingFurtherEvents", run: func(t *testing.T, e engine) {
		storagetesting.RunWatchErrorIsBlockingFurtherEvents(t.Context(), t, e.plain(t))
	}},
}, eachWayToList("WatchSemantics", gates{features.ConcurrentWatchObjectDecode: false}, func(t *testing.T, e engine, _ bool) {
	storagetesting.RunWatchSemantics(t.Context(), t, patiently(e.plain(t)))
}), eachWayToList("WatchSemanticsWithConcurrentDecode", gates{features.ConcurrentWatchObjectDecode: true}, func(t *testing.T, e engine, _ bool) {
	storagetesting.RunWatchSemantics(t.Context(), t, patiently(e.plain(t)))
}), eachWayToList("WatchSemanticInitialEventsExtended", nil, func(t *testing.T, e engine, _ bool) {
	storagetesting.RunWatchSemanticInitialEventsExtended(t.Context(), t, e.plain(t))
}), eachWayToList("WatchListMatchSingle", nil, func(t *testing.T, e engine, _ bool) {
	storagetesting.RunWatchListMatchSingle(t.Context(), t, e.plain(t))
}))
