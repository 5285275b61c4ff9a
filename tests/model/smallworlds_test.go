package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// smallWorlds returns two owners and dependents that name them in every way,
// combined with everything that users do to them.
func smallWorlds() (worlds []smallWorld) {
	o := object{namespace: "n", name: "o", uid: "o"}
	d := object{namespace: "n", name: "d", uid: "d"}
	toO, toP, toD := reference(betas, "v2", o), reference(gammas, "v1", object{name: "p", uid: "p"}), reference(alphas, "v1", d)
	with := func(r graph.Reference, change func(*graph.Reference)) graph.Reference { change(&r); return r }
	misnamed := with(toO, func(r *graph.Reference) { r.Name = "q" })
	unknown := with(toO, func(r *graph.Reference) { r.Kind = "Nonsense" })
	unservedVersion := with(toO, func(r *graph.Reference) { r.APIVersion = "ex.io/v9" })
	otherVersion := with(toO, func(r *graph.Reference) { r.APIVersion = "ex.io/v1" })
	otherKind := reference(alphas, "v1", o)
	mirrored := reference(mirrors, "v1", o)
	type refs = []graph.Reference

	declared := []struct {
		name string
		refs refs
	}{
		{"right", refs{toO}}, {"two owners", refs{toO, toP}}, {"other version", refs{otherVersion}}, {"mirrored", refs{mirrored}},
		{"misnamed", refs{misnamed}}, {"misnamed and solid", refs{misnamed, toP}}, {"right and misnamed", refs{toO, misnamed}},
		{"unknown kind", refs{toO, unknown}}, {"unserved version", refs{unservedVersion}}, {"other kind", refs{otherKind, toP}},
	}
	deleteO := action{op: opDelete, uid: "o"}
	deeds := []struct {
		name    string
		scripts [][]action
	}{
		{"owner goes", [][]action{{deleteO}}},
		{"owner goes and its name comes back", [][]action{{deleteO, {op: opCreate, kind: betas, namespace: "n", name: "o", uid: "o2"}}}},
		{"both owners go", [][]action{{deleteO}, {{op: opDelete, uid: "p"}}}},
		{"owner goes while a user gives another", [][]action{{deleteO}, {{op: opEdit, uid: "d", refs: refs{toO, toP}}}}},
		{"owner goes while a user takes it away", [][]action{{deleteO}, {{op: opEdit, uid: "d"}}}},
		{"dependent is made anew while its owner goes", [][]action{{deleteO}, {{op: opDelete, uid: "d"}, {op: opCreate, kind: alphas, namespace: "n", name: "d", uid: "d2", refs: refs{toP}}}}},
		{"the owner's kind goes with it", [][]action{{{op: opPurge, kind: betas}}}},
		{"the owner's kind hides", [][]action{{{op: opUnserve, kind: betas}}, {deleteO}}},
		{"the owner's kind hides for a while", [][]action{{{op: opUnserve, kind: betas}, {op: opServe, kind: betas}}, {deleteO}}},
		{"an empty list", [][]action{{{op: opRelist, kind: betas, held: true}}, {{op: opDelete, uid: "p"}}}},
		{"the owner's end is lost", [][]action{{deleteO, {op: opRelist, kind: betas}}}},
		{"the namespace ends", [][]action{{{op: opEnd, namespace: "n"}, {op: opEmpty, kind: betas, namespace: "n"}, {op: opEmpty, kind: alphas, namespace: "n"}}}},
	}
	for _, r := range declared {
		for _, deed := range deeds {
			worlds = append(worlds, smallWorld{
				name: r.name + ", " + deed.name,
				objects: []action{
					{op: opCreate, kind: betas, namespace: "n", name: "o", uid: "o"},
					{op: opCreate, kind: gammas, name: "p", uid: "p"},
					{op: opCreate, kind: alphas, namespace: "n", name: "d", uid: "d", refs: r.refs},
				},
				scripts:  deed.scripts,
				mirrored: r.name == "mirrored",
			})
			if r.name == "right" || r.name == "right and misnamed" {
				last := &worlds[len(worlds)-1]
				chained := *last
				chained.name += ", with a dependent of the dependent"
				chained.objects = append(slices.Clone(last.objects), action{op: opCreate, kind: alphas, namespace: "n", name: "e", uid: "e", refs: refs{toD}})
				worlds = append(worlds, chained)
			}
		}
	}
	return worlds
}

// policyWorlds returns an owner that is deleted with the policy Foreground or
// Orphan, combined with what users do meanwhile.
func policyWorlds() (worlds []smallWorld) {
	o := object{namespace: "n", name: "o", uid: "o"}
	d := object{namespace: "n", name: "d", uid: "d"}
	toO, toP, toD := blocking(reference(betas, "v2", o)), reference(gammas, "v1", object{name: "p", uid: "p"}), blocking(reference(alphas, "v1", d))
	free, misnamed, unknown := reference(betas, "v1", o), toO, toO
	misnamed.Name, unknown.Kind = "q", "Nonsense"
	type refs = []graph.Reference
	declared := []struct {
		name string
		refs refs
	}{
		{"blocking", refs{toO}}, {"not blocking", refs{free}}, {"beside a solid owner", refs{toO, toP}},
		{"misnamed", refs{misnamed}}, {"beside an unknown one", refs{toO, unknown}},
	}
	foregroundO, orphanO := action{op: opDelete, uid: "o", policy: foreground}, action{op: opDelete, uid: "o", policy: orphan}
	createE := action{op: opCreate, kind: alphas, namespace: "n", name: "e", uid: "e", refs: refs{toO}}
	ofD := createE
	ofD.refs = refs{toD}
	deeds := []struct {
		name    string
		scripts [][]action
	}{
		{"alone", nil},
		{"then in the background", [][]action{{{op: opDelete, uid: "o", policy: background}}}},
		{"then so that they stay", [][]action{{{op: opDelete, uid: "o", policy: orphan}}}},
		{"then in the foreground", [][]action{{{op: opDelete, uid: "o", policy: foreground}}}},
		{"and the finalizer goes", [][]action{{{op: opStrip, uid: "o"}}}},
		{"held by somebody", [][]action{{{op: opHold, uid: "o"}}, {{op: opRelease, uid: "o"}}}},
		{"while the dependent is held", [][]action{{{op: opHold, uid: "d"}, {op: opRelease, uid: "d"}}}},
		{"while another dependent comes", [][]action{{createE}}},
		{"while a dependent of the dependent comes", [][]action{{ofD}}},
		{"while the dependent gets another owner", [][]action{{{op: opEdit, uid: "d", refs: refs{toO, toP}}}}},
		{"while the other owner goes", [][]action{{{op: opDelete, uid: "p"}}}},
		{"while the dependent is deleted so that its own stay", [][]action{{{op: opDelete, uid: "d", policy: orphan}}}},
		{"while a list is empty", [][]action{{{op: opRelist, kind: alphas, held: true}}}},
		{"while the namespace ends", [][]action{{
			{op: opHold, uid: "o"}, {op: opEnd, namespace: "n"}, {op: opEmpty, kind: alphas, namespace: "n"}, {op: opEmpty, kind: betas, namespace: "n"}, {op: opRelease, uid: "o"},
		}}},
		{"while the dependent's kind hides", [][]action{{{op: opUnserve, kind: alphas}, {op: opServe, kind: alphas}}}},
	}
	for _, first := range []action{foregroundO, orphanO} {
		for _, r := range declared {
			for _, deed := range deeds {
				scripts := append([][]action{{first}}, deed.scripts...)
				if strings.HasPrefix(deed.name, "then") || strings.HasPrefix(deed.name, "and") {
					scripts = [][]action{append([]action{first}, deed.scripts[0]...)}
				}
				worlds = append(worlds, smallWorld{
					name: fmt.Sprintf("%s, owner goes (%s), %s", r.name, first.policy, deed.name),
					objects: []action{
						{op: opCreate, kind: betas, namespace: "n", name: "o", uid: "o"},
						{op: opCreate, kind: gammas, name: "p", uid: "p"},
						{op: opCreate, kind: alphas, namespace: "n", name: "d", uid: "d", refs: r.refs},
					},
					scripts: scripts,
				})
			}
		}
	}
	return worlds
}
