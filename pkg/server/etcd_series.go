package server

import (
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"
	"k8s.io/component-base/metrics/legacyregistry"
)

// registerEtcd adds the embedded etcd's own series to the API server's /metrics. etcd registers them where Prometheus' library
// does by default, and Kubernetes serves a registry of its own.
var registerEtcd = sync.OnceFunc(func() { legacyregistry.Registerer().MustRegister(etcdSeries{prometheus.DefaultGatherer}) })

// etcdSeries collects the series of a gatherer that etcd documents (https://etcd.io/docs/v3.6/metrics/): their names begin with etcd_.
// Those of the process and of Go are served already.
type etcdSeries struct{ from prometheus.Gatherer }

// Describe sends nothing, because many series begin with their first sample. So a registry cannot tell two collectors of this type apart.
func (etcdSeries) Describe(chan<- *prometheus.Desc) {}

// Collect sends what can be gathered.
func (e etcdSeries) Collect(to chan<- prometheus.Metric) {
	families, err := e.from.Gather()
	if err != nil {
		to <- prometheus.NewInvalidMetric(prometheus.NewInvalidDesc(err), err)
	}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "etcd_") {
			continue
		}
		desc := prometheus.NewDesc(f.GetName(), f.GetHelp(), nil, nil)
		for _, m := range f.GetMetric() {
			to <- gathered{desc, m}
		}
	}
}

// gathered is a sample of another registry.
type gathered struct {
	desc   *prometheus.Desc
	sample *dto.Metric
}

func (g gathered) Desc() *prometheus.Desc { return g.desc }

func (g gathered) Write(to *dto.Metric) error {
	proto.Merge(to, g.sample)
	return nil
}
