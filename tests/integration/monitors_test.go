package integration

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/reap-dev/reap/tests/goldenfile"
	"github.com/reap-dev/reap/tests/size"
)

// getURI returns what a path with a query is answered with; an answer that is not 200 is an error.
func (c clients) getURI(ctx context.Context, uri string) (string, error) {
	raw, err := c.kube.CoreV1().RESTClient().(*rest.RESTClient).Get().RequestURI(uri).DoRaw(ctx)
	return string(raw), err
}

// sample is one line of /metrics.
type sample struct {
	name   string
	labels map[string]string
	value  float64
}

var (
	sampleLine = regexp.MustCompile(`^([a-z_]+)(?:\{(.*)\})? (\S+)$`)
	labelPair  = regexp.MustCompile(`([a-z_]+)="([^"]*)"`)
)

// samples returns the lines of /metrics whose names begin with one of the prefixes.
func (s *server) samples(ctx context.Context, prefixes ...string) ([]sample, error) {
	raw, err := s.metrics(ctx)
	if err != nil {
		return nil, err
	}
	var all []sample
	for line := range strings.SplitSeq(string(raw), "\n") {
		if !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(line, p) }) { // most lines
			continue
		}
		m := sampleLine.FindStringSubmatch(line)
		if m == nil {
			return nil, fmt.Errorf("/metrics has the line %q", line)
		}
		p := sample{name: m[1], labels: map[string]string{}}
		for _, l := range labelPair.FindAllStringSubmatch(m[2], -1) {
			p.labels[l[1]] = l[2]
		}
		if p.value, err = strconv.ParseFloat(m[3], 64); err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// sum adds up the samples of a name that have these labels among theirs, given as name, value and so on.
func sum(all []sample, name string, labels ...string) (total float64, n int) {
	for _, p := range all {
		fits := p.name == name
		for i := 0; i < len(labels); i += 2 {
			fits = fits && p.labels[labels[i]] == labels[i+1]
		}
		if fits {
			total += p.value
			n++
		}
	}
	return total, n
}

// monitors returns how many monitors there are in all, and how many are synced.
func (s *server) monitors(t *testing.T) (all, synced float64) {
	t.Helper()
	found, err := s.samples(t.Context(), "reap_gc_monitors")
	if err != nil {
		t.Fatal(err)
	}
	all, _ = sum(found, "reap_gc_monitors")
	synced, _ = sum(found, "reap_gc_monitors", "state", "synced")
	return all, synced
}

// awaitNoSeries waits until no series of the collector is about a custom resource of the tests.
func (s *server) awaitNoSeries(t *testing.T, plural string) {
	t.Helper()
	await(t, "the end of the series about "+plural, func(ctx context.Context) (bool, any) {
		all, err := s.samples(ctx, "reap_gc_")
		left := slices.ContainsFunc(all, func(p sample) bool { return p.labels["group"] == testGroup && p.labels["resource"] == plural })
		return err == nil && !left, fmt.Sprint("left: ", left, ", error: ", err)
	})
}

// observing counts the goroutines that only informers and those who run them have.
func (s *server) observing(ctx context.Context) (int, error) {
	stacks, err := s.getURI(ctx, "/debug/pprof/goroutine?debug=2")
	n := 0
	for stack := range strings.SplitSeq(stacks, "\n\n") {
		if strings.Contains(stack, "pkg/gc/observe.") || strings.Contains(stack, "client-go/tools/cache.") {
			n++
		}
	}
	return n, err
}

func (s *server) awaitObserving(t *testing.T, most int) {
	t.Helper()
	await(t, fmt.Sprintf("no more than %d goroutines of informers", most), func(ctx context.Context) (bool, any) {
		n, err := s.observing(ctx)
		return err == nil && n <= most, fmt.Sprint(n, err)
	})
}

const refusedList = "cannot list or watch a resource"

// TestDeletedCRDsLeaveNoMonitors creates and deletes a CRD again and again. Its monitor is there at
// once: the dependents are made as soon as the API server serves them.
func TestDeletedCRDsLeaveNoMonitors(t *testing.T) {
	t.Parallel()
	rounds := size.Of(3, 6, 12)
	s := start(t, "--kube-apiserver-arg=profiling=true") // for the goroutines' stacks
	ns := s.namespace(t, "monitors")
	before, _ := s.monitors(t)
	idle, err := s.observing(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var one int // goroutines, with one definition
	var longest time.Duration
	for round := range rounds {
		sprockets, crd := s.define(t, "Namespaced", "sprockets", "Sprocket")
		s.createMany(t, 3, sprockets, ns, "dangling", nobody(configMaps)) // the API server takes two seconds
		began := time.Now()
		s.awaitCount(t, 0, sprockets, ns)
		longest = max(longest, time.Since(began))
		s.create(t, sprockets, ns, "kept")
		switch round {
		case 0:
			s.mustShowSprockets(t, before)
			if one, err = s.observing(t.Context()); err != nil || one <= idle {
				t.Fatalf("%d goroutines of informers with one definition, %d without (%v)", one, idle, err)
			}
		case rounds - 1:
			s.mustShowSprockets(t, before)
			s.awaitObserving(t, one)
		}
		s.undefine(t, crd)
		s.awaitNoSeries(t, "sprockets")
	}
	s.awaitObserving(t, idle)
	t.Logf("%d goroutines of informers without the definition, %d with it; the last dependent collected %s after it was made at most", idle, one, longest)
	if n, _ := s.monitors(t); n != before {
		t.Errorf("%v monitors, %v before", n, before)
	}
	if bytes.Contains(s.logFrom(0), []byte(refusedList)) {
		t.Error("the log reports a resource that only went")
	}
}

// mustShowSprockets awaits one monitor more than before, in order, and its series.
func (s *server) mustShowSprockets(t *testing.T, before float64) {
	t.Helper()
	labels := []string{"group", testGroup, "resource", "sprockets"}
	await(t, "the metrics of the sprockets", func(ctx context.Context) (bool, any) {
		all, err := s.samples(ctx, "reap_gc_")
		if err != nil {
			return false, err
		}
		collected, policies := sum(all, "reap_gc_objects_collected_total", labels...)
		observed, resources := sum(all, "reap_gc_resource_objects", labels...)
		monitors, synced := s.monitors(t)
		// The answer to the last deletion may be on its way.
		fine := policies == 3 && collected >= 1 && collected <= 3 && resources == 1 && observed == 1 && monitors == before+1 && synced == monitors
		return fine, fmt.Sprintf("%v collected by %d policies, %v observed of %d resources, %v monitors, of which %v are synced; %v before",
			collected, policies, observed, resources, monitors, synced, before)
	})
}

// convert changes how a definition's objects get from one version to the other, and gives it both.
func (s *server) convert(t *testing.T, crd *unstructured.Unstructured, conversion string) {
	t.Helper()
	schema := `{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}`
	patch := fmt.Sprintf(`{"spec":{"conversion":%s,"versions":[
		{"name":"v1","served":true,"storage":true,"schema":%s},{"name":"v2","served":true,"storage":false,"schema":%s}]}}`, conversion, schema, schema)
	_, err := s.dyn.Resource(definitions.gvr).Patch(t.Context(), crd.GetName(), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// broken is the conversion by a webhook that nobody answers.
func broken(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }() // only its port is wanted
	return fmt.Sprintf(`{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":"https://%s/convert"}}}`, l.Addr())
}

const mended = `{"strategy":"None","webhook":null}`

// TestResourceThatCannotBeListedStopsNothing has a custom resource with two versions and a broken conversion
// webhook: its objects are stored in one version and cannot be read in the other, which the collector takes.
func TestResourceThatCannotBeListedStopsNothing(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "unlistable")
	levers, crd := s.define(t, "Namespaced", "levers", "Lever")
	name := levers.gvr.GroupResource().String()
	o := s.create(t, configMaps, ns, "owner")
	lever := s.create(t, levers, ns, "dependent", owner(o))
	s.create(t, levers, ns, "kept")
	s.barrier(t, levers, ns) // the collector knows of them
	errorsBefore := s.syncErrors(t)
	from := int64(len(s.logFrom(0)))
	warnings := func() int {
		n := 0
		for line := range bytes.SplitSeq(s.logFrom(from), []byte("\n")) {
			if bytes.Contains(line, []byte(refusedList)) && bytes.Contains(line, []byte(name)) {
				n++
			}
		}
		return n
	}

	s.convert(t, crd, broken(t))
	repaired := false
	t.Cleanup(func() { // whatever happens: others list everything
		if !repaired {
			s.convert(t, crd, mended)
		}
	})
	labels := []string{"group", testGroup, "resource", "levers"}
	await(t, "several refused lists", func(ctx context.Context) (bool, any) {
		all, err := s.samples(ctx, "apiserver_request_total")
		if err != nil {
			return false, err
		}
		n, _ := sum(all, "apiserver_request_total", append(labels, "version", "v2", "verb", "LIST", "code", "500")...)
		return n >= 4, n
	})
	all, err := s.samples(t.Context(), "reap_gc_")
	if err != nil {
		t.Fatal(err)
	}
	if v, n := sum(all, "reap_gc_monitor_failing", labels...); v != 1 || n != 1 {
		t.Errorf("reap_gc_monitor_failing is %v", v)
	}
	if v, n := sum(all, "reap_gc_monitor_failing"); v != 1 || n != 1 {
		t.Errorf("%d monitors fail", n)
	}
	if v, _ := sum(all, "reap_gc_monitors", "state", "failing"); v != 1 {
		t.Errorf(`reap_gc_monitors{state="failing"} is %v`, v)
	}
	if n := s.syncErrors(t); n != errorsBefore+1 {
		t.Errorf("%v errors of synchronization, %v before", n, errorsBefore)
	}
	if n := warnings(); n != 1 {
		t.Errorf("the log has %d warnings about it", n)
	}
	s.mustBeReady(t, fmt.Sprintf("[+]reap-gc (cannot list: %s) ok\n", name))
	t.Run("what nobody is told who has no credentials", func(t *testing.T) {
		_, body := get(t, s.anonymous(t), s.URL+"/readyz?verbose")
		if !strings.Contains(body, "[+]reap-gc (cannot list: 1 in all) ok\n") || strings.Contains(body, "levers") {
			t.Errorf("/readyz says %s", body)
		}
	})
	t.Run("every series is documented", func(t *testing.T) { s.seriesMustBeDocumented(t) })

	// The rest is collected. What cannot be read stays.
	s.createMany(t, 50, configMaps, ns, "dependent", owner(o))
	s.delete(t, configMaps, o)
	s.awaitCount(t, 0, configMaps, ns)
	s.mustExist(t, levers, lever)

	s.convert(t, crd, mended)
	repaired = true
	s.awaitGone(t, levers, lever)
	await(t, "the end of the failure", func(ctx context.Context) (bool, any) {
		all, err := s.samples(ctx, "reap_gc_monitor")
		_, n := sum(all, "reap_gc_monitor_failing")
		return err == nil && n == 0, fmt.Sprint(n, err)
	})
	s.mustBeReady(t, "[+]reap-gc ok\n")
	if n := warnings(); n != 1 {
		t.Errorf("the log has %d warnings about it", n)
	}
	if !bytes.Contains(s.logFrom(from), []byte("works again")) {
		t.Error("the log does not say that it works again")
	}
	s.awaitCount(t, 1, levers, ns)
	s.undefine(t, crd)
	s.awaitNoSeries(t, "levers")
}

func (s *server) syncErrors(t *testing.T) float64 {
	t.Helper()
	const name = "garbagecollector_controller_resources_sync_error_total"
	all, err := s.samples(t.Context(), name)
	v, n := sum(all, name)
	if err != nil || n != 1 {
		t.Fatalf("%d series of %s (%v)", n, name, err)
	}
	return v
}

// mustBeReady fails the test unless the server is ready and /readyz says so in this line.
func (s *server) mustBeReady(t *testing.T, line string) {
	t.Helper()
	body, err := s.getURI(t.Context(), "/readyz?verbose")
	if err != nil || !strings.Contains(body, line) {
		t.Errorf("/readyz does not say %q: %s (%v)", line, body, err)
	}
}

func get(t *testing.T, c *http.Client, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // read to its end
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// metricHeader is what /metrics says of a series before its samples.
var metricHeader = regexp.MustCompile(`(?m)^# (HELP|TYPE) (\S+) (.*)$`)

// seriesMustBeDocumented holds docs/metrics.md against /metrics.
func (s *server) seriesMustBeDocumented(t *testing.T) {
	t.Helper()
	raw, err := s.metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	types, help := map[string]string{}, map[string]string{}
	for _, m := range metricHeader.FindAllStringSubmatch(string(raw), -1) {
		if m[1] == "TYPE" {
			types[m[2]] = m[3]
		} else {
			help[m[2]] = strings.TrimPrefix(m[3], "[ALPHA] ")
		}
	}
	labels := map[string][]string{}
	for line := range strings.SplitSeq(string(raw), "\n") {
		m := sampleLine.FindStringSubmatch(line)
		if m == nil || !strings.HasPrefix(m[1], "reap_") && !strings.HasPrefix(m[1], "garbagecollector_controller_") {
			continue
		}
		name := m[1]
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if base, ok := strings.CutSuffix(name, suffix); ok && types[base] == "histogram" {
				name = base
			}
		}
		labels[name] = nil
		for _, l := range labelPair.FindAllStringSubmatch(m[2], -1) {
			if l[1] != "le" {
				labels[name] = append(labels[name], "`"+l[1]+"`")
			}
		}
		slices.Sort(labels[name])
	}
	if len(labels) < 10 {
		t.Errorf("only %d series were found", len(labels))
	}
	table := "| series | type | labels | meaning |\n|---|---|---|---|\n"
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		table += fmt.Sprintf("| `%s` | %s | %s | %s |\n", name, types[name], strings.Join(labels[name], ", "), help[name])
	}
	goldenfile.Section(t, filepath.Join("..", "..", "docs", "metrics.md"), "The list of series", table)
}
