package integration

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reap-dev/reap/tests/databases"
)

// The lines about an outage that a user sees.
const (
	outageLine    = `msg="the datastore does not answer; requests to the API fail until it does"`
	outageEndLine = `msg="the datastore answers again"`
)

// outageLines bounds the other lines in an outage, such as that the server no longer leads. Without pkg/datastore/outage there are a
// hundred in the first second.
const outageLines = 8

// TestOutageOfTheDatastoreIsFewLines: while a database is stopped under a server that is used, the log says so at once and again a
// minute later; and once that it answers again. All that the server writes is in the format of the log.
func TestOutageOfTheDatastoreIsFewLines(t *testing.T) {
	t.Parallel() // it mostly waits
	if testing.Short() {
		t.Skip("needs the databases and waits for a minute")
	}
	for name, open := range map[string]func(*testing.T) (*databases.Server, string){"postgresql": databases.Postgres, "etcd": databases.Etcd} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			database, endpoint := open(t)
			s := start(t, "--datastore-endpoint", endpoint)
			await(t, "the server to collect", func(ctx context.Context) (bool, any) {
				collects, err := s.collects(ctx)
				return collects, err
			})
			before := len(s.logFrom(0))
			database.Stop()
			failed := 0
			await(t, "the log to say for the second time that the datastore is down", func(ctx context.Context) (bool, any) {
				told := strings.Count(string(s.logFrom(int64(before))), outageLine)
				if err := s.write(ctx); err != nil {
					failed++
					mustNameNoDatabase(t, database, err)
				}
				return told >= 2, told
			})
			// Liveness is the process; readiness is the datastore too.
			if _, err := s.get(t.Context(), "/livez"); err != nil {
				t.Errorf("/livez: %v", err)
			}
			if _, err := s.get(t.Context(), "/readyz"); err == nil {
				t.Error("/readyz: the server is ready")
			}
			if out, _, _ := s.run(t, "status"); !strings.Contains(out, "could not renew its lease") {
				t.Errorf("why no collector runs: %s", out)
			}
			if failed < 5 {
				t.Errorf("only %d requests failed meanwhile", failed)
			}
			lines := strings.Split(strings.TrimSpace(string(s.logFrom(int64(before)))), "\n")
			if len(lines) > 2+outageLines {
				t.Errorf("%d failed requests and %d lines:\n%s", failed, len(lines), strings.Join(lines, "\n"))
			}

			back := len(s.logFrom(0))
			database.Start(t)
			s.mustRecover(t)
			await(t, "the log to say that the datastore answers again", func(context.Context) (bool, any) {
				return strings.Contains(string(s.logFrom(int64(back))), outageEndLine), nil
			})
			s.stop(t)
			after := string(s.logFrom(int64(back)))
			if n := strings.Count(after, outageEndLine); n != 1 {
				t.Errorf("the log says %d times that the datastore answers again:\n%s", n, after)
			}
			for line := range strings.Lines(string(s.logFrom(0))) {
				if !logfmt.MatchString(strings.TrimSuffix(line, "\n")) {
					t.Errorf("no record of the log: %q", line)
				}
			}
		})
	}
}

// mustNameNoDatabase looks at how a request fails without its datastore: to be tried again, and without the address.
func mustNameNoDatabase(t *testing.T, database *databases.Server, err error) {
	t.Helper()
	var status apierrors.APIStatus
	if strings.Contains(err.Error(), database.Address()) || errors.As(err, &status) && status.Status().Code < http.StatusServiceUnavailable {
		t.Errorf("a request is answered with %v", err)
	}
}

// write creates an object and deletes it.
func (s *server) write(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	maps := s.kube.CoreV1().ConfigMaps(metav1.NamespaceDefault)
	_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "outage"}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return maps.Delete(ctx, "outage", metav1.DeleteOptions{})
}
