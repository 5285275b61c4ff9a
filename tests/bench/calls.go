package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// auditPolicy makes the server record every call about the objects that cascades are made of.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
  resources: [{group: "", resources: [configmaps]}]
- level: None
`

// collectorUser is the user name of reap's collector in its own server.
const collectorUser = "system:serviceaccount:kube-system:generic-garbage-collector"

// calls counts the calls of both collectors at the server, by the role that an object has in its cascade. It does not
// use the cascades that are timed, because recording every call takes time.
func (b *bench) calls(ctx context.Context) error {
	dir, err := b.newDir()
	if err != nil {
		return err
	}
	policy, log := filepath.Join(filepath.Dir(dir), "policy.yaml"), filepath.Join(filepath.Dir(dir), "audit.log")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return err
	}
	args := []string{"--kube-apiserver-arg", "audit-policy-file=" + policy, "--kube-apiserver-arg", "audit-log-path=" + log}
	type run struct {
		shape shape
		who   string
		items []item
	}
	runs := map[string]run{} // by namespace
	var order []string
	n := min(b.objects, 1000)
	for _, who := range []string{own, upstream} {
		with := args
		if who != own {
			with = slices.Concat(args, []string{withoutCollector})
		}
		err := b.with(ctx, dir, with, func(s *server) error {
			for _, sh := range shapes[:4] {
				_, ns, err := b.cascade(ctx, s, sh, n, who)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", sh.name, who, err)
				}
				runs[ns] = run{sh, who, sh.items(n)}
				order = append(order, ns)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	counted, err := countCalls(log)
	if err != nil {
		return err
	}
	for _, ns := range order {
		r := runs[ns]
		of := map[string]int{}
		for _, it := range r.items {
			of[role(it.name)]++
		}
		for _, what := range slices.Sorted(maps.Keys(of)) {
			var limit *budget
			if r.who == own {
				limit = callBudget(r.shape.name, what)
			}
			total, verbs := 0, []string{}
			for _, verb := range slices.Sorted(maps.Keys(counted[ns][what])) {
				total += counted[ns][what][verb]
				verbs = append(verbs, fmt.Sprintf("%d %s", counted[ns][what][verb], verb))
			}
			if total == 0 {
				verbs = []string{"none"}
			}
			label := fmt.Sprintf("%s, %s, %s (%d; %s)", r.who, r.shape.name, what, of[what], strings.Join(verbs, ", "))
			b.report.add("calls", label, float64(total)/float64(of[what]), "calls/object", limit)
		}
	}
	return nil
}

// callBudget returns how many calls an object may cost. Reading the owner of many leaves once counts as a call of the
// owner.
func callBudget(shape, role string) *budget {
	switch {
	case shape == "background" && role == "leaf", shape == "foreground" && role == "leaf":
		return atMost(1.05)
	case role == "inner":
		return atMost(4)
	}
	return nil
}

// countCalls reads an audit log and counts the collectors' calls by namespace, role and verb.
func countCalls(file string) (map[string]map[string]map[string]int, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	counted := map[string]map[string]map[string]int{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e struct {
			Verb      string `json:"verb"`
			UserAgent string `json:"userAgent"`
			User      struct {
				Username string `json:"username"`
			} `json:"user"`
			ObjectRef struct {
				Namespace string `json:"namespace"`
				Name      string `json:"name"`
			} `json:"objectRef"`
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("reading the audit log: %w", err)
		}
		if e.UserAgent != userAgent && e.User.Username != collectorUser || e.ObjectRef.Name == "" {
			continue
		}
		byRole := counted[e.ObjectRef.Namespace]
		if byRole == nil {
			byRole = map[string]map[string]int{}
			counted[e.ObjectRef.Namespace] = byRole
		}
		what := role(e.ObjectRef.Name)
		if byRole[what] == nil {
			byRole[what] = map[string]int{}
		}
		byRole[what][e.Verb]++
	}
	return counted, lines.Err()
}
