// Package histories records what clients of a datastore see, and holds it to what etcd promises: every operation takes
// effect at one moment between its call and its answer (linearizability, checked by porcupine), every watch shows
// exactly the changes after its beginning, in their order, every list shows its revision, and no lease ends before its time.
//
// https://etcd.io/docs/latest/learning/api_guarantees/
package histories
