package server

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// Samples of every type are passed on as they are, with their labels; series that are not etcd's are left out.
func TestSeriesOfEtcdArePassedOn(t *testing.T) {
	from := prometheus.NewRegistry()
	count := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "etcd_server_count", Help: "A count."}, []string{"b", "a"})
	size := prometheus.NewGauge(prometheus.GaugeOpts{Name: "etcd_mvcc_size", Help: "A size."})
	took := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "etcd_disk_took", Help: "Times.", Buckets: []float64{1}})
	from.MustRegister(count, size, took, prometheus.NewGauge(prometheus.GaugeOpts{Name: "go_threads", Help: "Served already."}))
	size.Set(5)
	took.Observe(0.5)
	took.Observe(2)

	to := prometheus.NewRegistry()
	to.MustRegister(etcdSeries{from})
	const before = `# HELP etcd_disk_took Times.
# TYPE etcd_disk_took histogram
etcd_disk_took_bucket{le="1"} 1
etcd_disk_took_bucket{le="+Inf"} 2
etcd_disk_took_sum 2.5
etcd_disk_took_count 2
# HELP etcd_mvcc_size A size.
# TYPE etcd_mvcc_size gauge
etcd_mvcc_size 5
`
	if err := testutil.GatherAndCompare(to, strings.NewReader(before)); err != nil {
		t.Error(err)
	}
	// A series with labels begins with its first sample.
	count.WithLabelValues("x", "y").Add(3)
	if err := testutil.GatherAndCompare(to, strings.NewReader(before+`# HELP etcd_server_count A count.
# TYPE etcd_server_count counter
etcd_server_count{a="y",b="x"} 3
`)); err != nil {
		t.Error(err)
	}
}
