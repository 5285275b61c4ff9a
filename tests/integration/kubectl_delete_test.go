package integration

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// family is a ReplicaSet with two dependents, of which one stays, deleted, until it is released.
type family struct{ set, free, held *unstructured.Unstructured }

// family makes one. The ReplicaSet wants no pods: its controller, where it runs, has nothing to do.
func (s *server) family(t *testing.T, ns, name string) family {
	t.Helper()
	set := object(replicaSets, name)
	set.Object["spec"] = map[string]any{
		"replicas": int64(0),
		"selector": map[string]any{"matchLabels": map[string]any{"of": name}},
		"template": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"of": name}},
			"spec":     map[string]any{"containers": []any{map[string]any{"name": "c", "image": "none"}}},
		},
	}
	set, err := s.dyn.Resource(replicaSets.gvr).Namespace(ns).Create(t.Context(), set, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return family{
		set:  set,
		free: s.create(t, configMaps, ns, name+"-free", blocking(set)),
		held: s.createHeld(t, configMaps, ns, name+"-held", blocking(set)),
	}
}

// ends waits until the deletion of a family's owner has come to the end that the policy promises.
func (s *server) ends(t *testing.T, f family, policy metav1.DeletionPropagation) {
	t.Helper()
	switch policy {
	case background:
		s.awaitGone(t, replicaSets, f.set)
		s.awaitGone(t, configMaps, f.free)
		s.release(t, configMaps, f.held)
		s.awaitGone(t, configMaps, f.held)
	case foreground:
		s.awaitGone(t, configMaps, f.free)
		s.mustWait(t, replicaSets, f.set)
		s.release(t, configMaps, f.held)
		s.awaitGone(t, configMaps, f.held)
		s.awaitGone(t, replicaSets, f.set)
	case orphan:
		s.awaitGone(t, replicaSets, f.set)
		s.barrier(t, configMaps, f.set.GetNamespace())
		s.release(t, configMaps, f.held)
		for _, o := range []*unstructured.Unstructured{f.free, f.held} {
			now, err := s.dyn.Resource(configMaps.gvr).Namespace(o.GetNamespace()).Get(t.Context(), o.GetName(), metav1.GetOptions{})
			if err != nil {
				t.Fatalf("reading an orphaned dependent: %v", err)
			}
			if now.GetUID() != o.GetUID() || now.GetDeletionTimestamp() != nil || len(now.GetOwnerReferences()) > 0 {
				t.Errorf("an orphaned dependent was changed: %v", now.Object["metadata"])
			}
		}
	}
}

// TestKubectlCascades: the policies by all their names, the two from before Kubernetes 1.20 included.
func TestKubectlCascades(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "kubectl-cascade")
	k := s.kubectl(t)
	warning := func(given, better string) string {
		return "warning: --cascade=" + given + " is deprecated (boolean value) and can be replaced with --cascade=" + better + ".\n"
	}
	for i, tc := range []struct {
		flag   string
		policy metav1.DeletionPropagation
		stderr string
	}{
		{"--now=false", background, ""}, // nothing is said about it
		{"--cascade", background, ""},
		{"--cascade=background", background, ""},
		{"--cascade=foreground", foreground, ""},
		{"--cascade=orphan", orphan, ""},
		{"--cascade=true", background, warning("true", "background")},
		{"--cascade=false", orphan, warning("false", "orphan")},
	} {
		f := s.family(t, ns, fmt.Sprint("set-", i))
		got := finish(t, k.command("delete", "replicaset", f.set.GetName(), "--namespace", ns, "--wait=false", tc.flag), "")
		want := output{fmt.Sprintf("replicaset.apps %q deleted from %s namespace\n", f.set.GetName(), ns), tc.stderr, 0}
		if got != want {
			t.Errorf("%s: got %+v, want %+v", tc.flag, got, want)
		}
		s.ends(t, f, tc.policy)
	}

	f := s.family(t, ns, "set")
	got := finish(t, k.command("delete", "replicaset", "set", "--namespace", ns, "--cascade=background,orphan"), "")
	if want := (output{"", "error: invalid cascade value (background,orphan). Must be \"background\", \"foreground\", or \"orphan\"\n", 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	s.mustExist(t, replicaSets, f.set)
	s.release(t, configMaps, f.held)
}

// TestKubectlProxy does what Kubernetes' documentation does with curl, and ends the proxy.
func TestKubectlProxy(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "kubectl-proxy")
	cmd := s.kubectl(t).command("proxy", "--port=0")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	t.Cleanup(func() {
		late.Stop()
		_ = cmd.Process.Kill() // after a failure
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	address := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(line)
	if address == "" {
		t.Fatalf("the proxy says %q (%v)", line, err)
	}

	for _, policy := range []metav1.DeletionPropagation{background, foreground, orphan} {
		f := s.family(t, ns, strings.ToLower(string(policy)))
		body := `{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"` + string(policy) + `"}`
		url := "http://" + address + "/apis/apps/v1/namespaces/" + ns + "/replicasets/" + f.set.GetName()
		answer := sendDelete(t, url, body)
		// What is answered differs: a status if the object is gone, else the object and what it waits for.
		var want []string
		switch policy {
		case foreground:
			want = []string{metav1.FinalizerDeleteDependents}
		case orphan:
			want = []string{metav1.FinalizerOrphanDependents}
		}
		if got := answer.GetFinalizers(); fmt.Sprint(got) != fmt.Sprint(want) || (answer.GetKind() == "Status") != (want == nil) {
			t.Errorf("%s: answered %v", policy, answer)
		}
		s.ends(t, f, policy)

		// The documentation's own object.
		docs := s.namespace(t, "kubectl-proxy")
		levels := s.grow(t, docs, documented[0])
		sendDelete(t, "http://"+address+"/apis/apps/v1/namespaces/"+docs+"/replicasets/my-repset", body)
		s.mustEndAs(t, policy, docs, levels)
	}

	// Not SIGINT, which a shell lets its background jobs ignore, and with them these tests.
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // the state says all of it
	if state := cmd.ProcessState.Sys().(syscall.WaitStatus); !state.Signaled() || state.Signal() != syscall.SIGTERM {
		t.Errorf("after SIGTERM the proxy ended with: %s", cmd.ProcessState)
	}
}

func sendDelete(t *testing.T, url, body string) *unstructured.Unstructured {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodDelete, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }() // only read
	o := &unstructured.Unstructured{}
	if err := json.NewDecoder(answer.Body).Decode(&o.Object); err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v", answer.Status, err)
	}
	return o
}
