package model

// finalStays makes the oracle strict where pkg/gc/graph's
// TestDefectLateReadOverwritesProof shows it may not be yet; set it to true with
// the fix. It then requires
//   - in worlds where no event is lost and every owner is watched, the right outcome
//     before any time has passed: the defect delays it by decide.RecheckAfter;
//   - that an owner's DELETED event counts after the owner's kind has gone: with the
//     defect, and no kind left to ask, the dependents stay for ever.
const finalStays = false
