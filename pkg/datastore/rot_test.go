package datastore

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/k3s-io/kine/pkg/server"
	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// stored is what a read finds of a key.
type stored struct {
	revision int64
	lease    int64
	value    string
}

// rot counts what becomes of stores that are damaged while the server is stopped.
//
// The collector deletes a dependent only on a live read that says that its owner is not there, or has another UID, and only after
// Store.Verify has found the store whole. So damage is harmless if the start or the check finds it, or if every key is found by GET and LIST
// as it was written. What is left is an object that is whole, decodes, lies below its key, and is another one.
type rot struct {
	wrote                                          map[string]stored
	tries, refused, behind, found, hidden, outlive int
	other                                          map[string]int // fields of whole objects that changed
}

// power says what was tried since it was last called.
func (r *rot) power() string {
	others := 0
	var fields []string
	for _, field := range slices.Sorted(maps.Keys(r.other)) {
		others += r.other[field]
		fields = append(fields, fmt.Sprintf("%s:%d", field, r.other[field]))
	}
	text := fmt.Sprintf("tried=%d refused=%d behind=%d found=%d hidden=%d harmless=%d other=%d", r.tries, r.refused, r.behind, r.found, r.hidden, r.outlive, others)
	if others > 0 {
		text += " fields=" + strings.Join(fields, ",")
	}
	r.tries, r.refused, r.behind, r.found, r.hidden, r.outlive, r.other = 0, 0, 0, 0, 0, 0, nil
	return text
}

// lost says what a read of a damaged store does not find as it was written, but for the contents of whole objects.
func (r *rot) lost(got map[string]stored) (lost string) {
	for key, was := range r.wrote {
		is, there := got[key]
		switch {
		case !there:
			return fmt.Sprintf("%q is not found", key)
		case is.revision != was.revision:
			return fmt.Sprintf("%q is found at revision %d, and was written at %d", key, is.revision, was.revision)
		case (was.lease == 0) != (is.lease == 0):
			if is.lease != 0 || !mayExpire(key) { // an Event that stays does no harm
				return fmt.Sprintf("%q has a lease of %d", key, is.lease)
			}
		}
	}
	for key := range got {
		if _, there := r.wrote[key]; !there && key != server.HealthKey { // kine's own
			return fmt.Sprintf("%q is found, and is not there", key)
		}
	}
	return ""
}

// survives judges a damaged store that was started, and which the check has found whole or not. listed is what a LIST finds, got what a GET of each
// key does.
func (r *rot) survives(t *testing.T, how string, problems []string, got, listed map[string]stored, err error) {
	t.Helper()
	lost := ""
	if err == nil {
		lost = r.lost(got)
	}
	if err == nil && lost == "" {
		lost = r.lost(listed)
	}
	if len(problems) > 0 {
		r.found++
		if err != nil || lost != "" {
			r.hidden++
		}
		return
	}
	if err != nil || lost != "" {
		t.Errorf("%s: neither the start nor the check finds it: %s (%v)", how, lost, err)
		return
	}
	r.outlive++
	for key, was := range r.wrote {
		if is := got[key]; is.value != was.value {
			r.outlive--
			if r.other == nil {
				r.other = map[string]int{}
			}
			r.other[changed(was.value, is.value)]++
			return
		}
	}
}

// changed names the field of an object in which two values differ.
func changed(was, is string) string {
	x, y := fields(was), fields(is)
	var names []string
	for _, name := range slices.Sorted(maps.Keys(x)) {
		if !reflect.DeepEqual(x[name], y[name]) {
			names = append(names, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(y)) {
		if _, known := x[name]; !known {
			names = append(names, "+"+name)
		}
	}
	if len(names) == 0 {
		return "none"
	}
	if len(names) > 3 {
		return "several"
	}
	return strings.Join(names, "+")
}

// fields returns the fields of an object, with those of its metadata one by one.
func fields(value string) map[string]any {
	var o struct {
		APIVersion, Kind string
		Metadata         map[string]any
	}
	undecodable := map[string]any{"undecodable": value}
	raw, protobuf := strings.CutPrefix(value, "k8s\x00")
	var envelope runtime.Unknown
	if protobuf {
		var meta metav1.PartialObjectMetadata
		if envelope.Unmarshal([]byte(raw)) != nil || meta.Unmarshal(envelope.Raw) != nil {
			return undecodable
		}
		encoded, err := json.Marshal(meta)
		if err != nil {
			return undecodable
		}
		value = string(encoded)
	}
	if json.Unmarshal([]byte(value), &o) != nil {
		return undecodable
	}
	all := map[string]any{"type": o.APIVersion + o.Kind + envelope.APIVersion + envelope.Kind}
	for name, field := range o.Metadata {
		all["metadata."+name] = field
	}
	return all
}

// owned is a value as the API server stores it, of about so many bytes, with a UID and an owner.
func owned(t testing.TB, key string, bytes int, random *rand.Rand) string {
	t.Helper()
	name := key[strings.LastIndex(key, "/")+1:]
	uid := func() types.UID {
		return types.UID(fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", random.Uint32(), random.IntN(1<<16), random.IntN(1<<12), random.IntN(1<<12), random.Uint64()>>16))
	}
	yes := true
	meta := metav1.ObjectMeta{
		Name: name, Namespace: "default", UID: uid(), Annotations: map[string]string{"note": strings.Repeat("note ", bytes/5)}, Generation: 1,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: uid(), BlockOwnerDeletion: &yes}},
	}
	if strings.HasPrefix(key, "/registry/example.com/") {
		raw, err := json.Marshal(metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "example.com/v1", Kind: "Thing"}, ObjectMeta: meta})
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	raw, err := (&metav1.PartialObjectMetadata{ObjectMeta: meta}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	envelope, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: map[bool]string{true: "Event", false: "ConfigMap"}[mayExpire(key)]}, Raw: raw}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return "k8s\x00" + string(envelope)
}

// past is what a store held at each revision.
type past map[int64]map[string]stored

// at returns what the store held at a revision. Some take other keys, such as those of a start.
func (p past) at(revision int64) map[string]stored {
	for ; revision > 0; revision-- {
		if held, known := p[revision]; known {
			return held
		}
	}
	return nil
}

// lost says what a store at a revision lacks of its past; "" if it is as at that revision, or as before what a start writes.
func (p past) lost(revision int64, got, listed map[string]stored) (lost string) {
	const byAStart = 3
	for before := range int64(byAStart + 1) {
		r := &rot{wrote: p.at(revision - before)}
		what := r.lost(got) + r.lost(listed)
		if what == "" {
			return ""
		}
		if before == 0 {
			lost = what
		}
	}
	return lost
}

// keys returns the keys that were ever there.
func (p past) keys() []string {
	all := map[string]bool{}
	for _, held := range p {
		for key := range held {
			all[key] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// writer writes objects of a few hundred bytes up to several pages.
type writer struct {
	c      *clientv3.Client
	random *rand.Rand
	there  map[string]stored
	past   past
}

func newWriter(c *clientv3.Client, random *rand.Rand) *writer {
	return &writer{c: c, random: random, there: map[string]stored{}, past: past{}}
}

func (w *writer) wrote(revision int64) { w.past[revision] = maps.Clone(w.there) }

// write creates or changes one of 120 keys.
func (w *writer) write(t *testing.T, bytes int) {
	t.Helper()
	i := w.random.IntN(120)
	key := fmt.Sprintf("/registry/configmaps/default/%03d", i)
	if i%3 == 0 {
		key = fmt.Sprintf("/registry/example.com/things/default/%03d", i)
	}
	value := owned(t, key, bytes, w.random)
	answer, err := put(t.Context(), w.c, key, value, w.there[key].revision)
	if err != nil {
		t.Fatal(err)
	}
	w.there[key] = stored{revision: answer.Header.Revision, value: value}
	w.wrote(answer.Header.Revision)
}

// drop deletes one in so many keys.
func (w *writer) drop(t *testing.T, of int) {
	t.Helper()
	for _, key := range slices.Sorted(maps.Keys(w.there)) {
		if w.there[key].lease != 0 || w.random.IntN(of) > 0 {
			continue
		}
		revision, err := remove(t.Context(), w.c, key, w.there[key].revision)
		if err != nil {
			t.Fatal(err)
		}
		delete(w.there, key)
		w.wrote(revision)
	}
}

// fill writes, changes and deletes objects, and compacts so that pages become free. between is called now and then.
func (w *writer) fill(t *testing.T, between func()) {
	t.Helper()
	for i := range 200 {
		w.write(t, []int{100, 300, 1000, 6000, 14_000}[w.random.IntN(5)])
		if i%50 == 0 {
			between()
		}
	}
	for i := range 3 {
		lease, err := w.c.Grant(t.Context(), 3600)
		if err != nil {
			t.Fatal(err)
		}
		key := fmt.Sprint("/registry/events/default/", i)
		value := owned(t, key, 100, w.random)
		answer, err := w.c.Txn(t.Context()).If(clientv3.Compare(clientv3.ModRevision(key), "=", 0)).Then(clientv3.OpPut(key, value, clientv3.WithLease(lease.ID))).Commit()
		if err != nil {
			t.Fatal(err)
		}
		w.there[key] = stored{revision: answer.Header.Revision, lease: int64(lease.ID), value: value}
		w.wrote(answer.Header.Revision)
	}
	between()
	w.drop(t, 3)
	between()
	if _, err := w.c.Compact(t.Context(), slices.Max(slices.Collect(maps.Keys(w.past)))); err != nil {
		t.Fatal(err)
	}
	between()
	for range 20 {
		w.write(t, 100+w.random.IntN(1000))
	}
	between()
	w.drop(t, 10)
}

// strike changes one bit of a byte, or all of it.
func strike(content []byte, at int, random *rand.Rand) (damaged []byte, how string) {
	damaged = slices.Clone(content)
	if random.IntN(2) == 0 {
		bit := byte(1) << random.IntN(8)
		damaged[at] ^= bit
		return damaged, fmt.Sprintf("bit %#x of byte %d flipped", bit, at)
	}
	damaged[at] ^= byte(1 + random.IntN(255))
	return damaged, fmt.Sprintf("byte %d is %#x instead of %#x", at, damaged[at], content[at])
}
