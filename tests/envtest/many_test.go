//go:build releasetest

package envtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// many is as many environments as go test starts at once for a project with many packages, on a machine with ten cores.
const many = 10

// atOnce calls a function for each number below n, all at the same time, and returns their errors and the longest time.
func atOnce(n int, do func(int) error) (longest time.Duration, err error) {
	errs, took := make([]error, n), make([]time.Duration, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			began := time.Now()
			errs[i] = do(i)
			took[i] = time.Since(began)
		})
	}
	all.Wait()
	for _, t := range took {
		longest = max(longest, t)
	}
	return longest, errors.Join(errs...)
}

// TestTenEnvironmentsAtOnce starts them, deletes an owner in each, and stops them.
func TestTenEnvironmentsAtOnce(t *testing.T) {
	envs := make([]*envtest.Environment, many)
	for i := range envs {
		envs[i] = patient(logged(t, &envtest.Environment{}))
	}
	stop := func() (time.Duration, error) { return atOnce(many, func(i int) error { return envs[i].Stop() }) }
	starts, err := atOnce(many, func(i int) error { _, err := envs[i].Start(); return err })
	if err != nil {
		_, stopErr := stop()
		t.Fatal(errors.Join(err, stopErr))
	}
	cascades, err := atOnce(many, func(i int) error { return cascade(t.Context(), envs[i]) })
	if err != nil {
		t.Error(err)
	}
	memory := 0.0
	for _, env := range envs {
		mib, err := memoryOf(env)
		if err != nil {
			t.Error(err)
		}
		memory += mib["etcd"] + mib["kube-apiserver"]
	}
	stops, err := stop()
	if err != nil {
		t.Error(err)
	}
	t.Attr("power", fmt.Sprintf("environments=%d start=%.1fs cascade=%.1fs stop=%.1fs MiB-each=%.0f",
		many, starts.Seconds(), cascades.Seconds(), stops.Seconds(), memory/many))
}

// cascade deletes an owner in the foreground, and waits until it and its dependents are gone.
func cascade(ctx context.Context, env *envtest.Environment) error {
	c, err := client.New(env.Config, client.Options{})
	if err != nil {
		return err
	}
	owner := configMap("default", "owner")
	if err := c.Create(ctx, owner); err != nil {
		return err
	}
	reference := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID, BlockOwnerDeletion: new(true)}
	for i := range 20 {
		if err := c.Create(ctx, configMap("default", fmt.Sprintf("dependent-%d", i), reference)); err != nil {
			return err
		}
	}
	if err := c.Delete(ctx, owner, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		return err
	}
	left := &corev1.ConfigMapList{}
	return wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, within, true, func(ctx context.Context) (bool, error) {
		err := c.List(ctx, left, client.InNamespace("default"))
		return err == nil && len(left.Items) == 0, nil
	})
}
