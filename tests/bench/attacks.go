package main

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// attack is something that a tenant with all rights in one namespace, and none elsewhere, can do.
type attack struct {
	name, about string
	// begin makes the attacker's objects and does with them what is done once.
	begin func(context.Context, *attacker) error
	// once is true if the attack is one deletion of all the attacker's objects. Otherwise it goes on until it is stopped,
	// and the objects are deleted afterwards.
	once bool
	// policy is how bystanders delete their owners.
	policy metav1.DeletionPropagation
}

var attacks = []attack{
	{"unknown-kind", "four objects with 4 N references each to a kind that nobody serves, patched in a loop",
		namesUnknown, false, metav1.DeletePropagationBackground},
	{"absent-owners", "four objects with 4 N references each to absent objects and one to an unknown kind, patched in a loop",
		namesAbsent, false, metav1.DeletePropagationBackground},
	{"many-owners", "1.25 N owners of one object, all deleted at once in the foreground",
		manyOwners, true, metav1.DeletePropagationBackground},
	{"many-references", "an object with 5 N references to living objects, patched in a loop",
		manyReferences, false, metav1.DeletePropagationBackground},
	{"ring", "a ring of 5 N objects, one of them deleted in the foreground, all others after a while",
		ring, false, metav1.DeletePropagationBackground},
	{"crowd", "25 N objects of one owner, deleted in a namespace where ten of another are deleted too",
		crowd, true, metav1.DeletePropagationBackground},
	{"foreign", "25 N objects that name the bystanders' owners, with a kind that nobody serves, from another namespace",
		foreign, false, metav1.DeletePropagationForeground},
	{"never", "N / 2 objects that cannot be collected: of an unknown kind's object, or held by a finalizer",
		never, false, metav1.DeletePropagationBackground},
}

// attacker is who carries out an attack.
type attacker struct {
	bench  *bench
	server *server
	ns     string
	named  []*bystander // those who are there during the attack and after it

	made    []string     // its objects
	patched []string     // those that it patches in a loop while the attack goes on
	stuck   int          // how many of its objects can never go
	beside  *bystander   // in the attacker's own namespace; nil as a rule
	patches atomic.Int64 // made so far
}

// namesUnknown and namesAbsent keep the names of the measurements that found them. Each of these attacks once stopped a
// server's collection.
func namesUnknown(ctx context.Context, a *attacker) error {
	return a.four(ctx, func(int) metav1.OwnerReference { return unknown(uuid.NewUUID()) })
}

func namesAbsent(ctx context.Context, a *attacker) error {
	return a.four(ctx, func(i int) metav1.OwnerReference {
		if i == 0 {
			return unknown(uuid.NewUUID())
		}
		return configMap(fmt.Sprintf("absent-%06d", i), uuid.NewUUID())
	})
}

// four makes four objects with the same number of references, which are patched in a loop.
func (a *attacker) four(ctx context.Context, owner func(i int) metav1.OwnerReference) error {
	_, err := a.make(ctx, "patched", 4, func(_ int, o *unstructured.Unstructured) {
		o.SetOwnerReferences(references(4*a.bench.objects, owner))
	})
	a.patched = slices.Clone(a.made)
	return err
}

func manyReferences(ctx context.Context, a *attacker) error {
	n := 5 * a.bench.objects
	uids, err := a.make(ctx, "owner", n, nil)
	if err != nil {
		return err
	}
	owners := slices.Clone(a.made)
	_, err = a.make(ctx, "patched", 1, func(_ int, o *unstructured.Unstructured) {
		o.SetOwnerReferences(references(n, func(i int) metav1.OwnerReference { return configMap(owners[i], uids[i]) }))
	})
	a.patched = a.made[n:]
	return err
}

func manyOwners(ctx context.Context, a *attacker) error {
	n := a.bench.objects * 5 / 4
	uids, err := a.make(ctx, "owner", n, nil)
	if err != nil {
		return err
	}
	owners := slices.Clone(a.made)
	if _, err := a.make(ctx, "dependent", 1, func(_ int, o *unstructured.Unstructured) {
		o.SetOwnerReferences(references(n, func(i int) metav1.OwnerReference { return blocking(configMap(owners[i], uids[i])) }))
	}); err != nil {
		return err
	}
	if err := a.server.barrier(ctx, configMaps, a.ns); err != nil {
		return err
	}
	return a.delete(ctx, metav1.DeletePropagationForeground, owners...)
}

func ring(ctx context.Context, a *attacker) error {
	n := 5 * a.bench.objects
	uids, err := a.make(ctx, "member", n, nil)
	if err != nil {
		return err
	}
	client := a.server.objects.Resource(configMaps.gvr).Namespace(a.ns)
	if err := each(ctx, n, func(ctx context.Context, i int) error {
		before := (i + n - 1) % n
		o := configMaps.object(a.made[i])
		small(o)
		o.SetOwnerReferences([]metav1.OwnerReference{blocking(configMap(a.made[before], uids[before]))})
		_, err := client.Update(ctx, o, metav1.UpdateOptions{})
		return err
	}); err != nil {
		return err
	}
	if err := a.server.barrier(ctx, configMaps, a.ns); err != nil {
		return err
	}
	return a.delete(ctx, metav1.DeletePropagationForeground, a.made[0])
}

func crowd(ctx context.Context, a *attacker) error {
	uids, err := a.make(ctx, "owner", 1, nil)
	if err != nil {
		return err
	}
	owner := configMap(a.made[0], uids[0])
	if _, err := a.make(ctx, "dependent", 25*a.bench.objects, func(_ int, o *unstructured.Unstructured) {
		o.SetOwnerReferences([]metav1.OwnerReference{owner})
	}); err != nil {
		return err
	}
	if a.beside, err = a.server.bystander(ctx, a.ns, 10); err != nil {
		return err
	}
	if err := a.server.barrier(ctx, configMaps, a.ns); err != nil {
		return err
	}
	return a.delete(ctx, metav1.DeletePropagationBackground, owner.Name)
}

func foreign(ctx context.Context, a *attacker) error {
	var owners []metav1.OwnerReference
	for _, by := range a.named {
		owners = append(owners, blocking(unknown(by.root)))
	}
	_, err := a.make(ctx, "foreign", 25*a.bench.objects, func(_ int, o *unstructured.Unstructured) { o.SetOwnerReferences(owners) })
	return err
}

func never(ctx context.Context, a *attacker) error {
	n := a.bench.objects / 4
	if _, err := a.make(ctx, "unknown", n, func(_ int, o *unstructured.Unstructured) {
		o.SetOwnerReferences([]metav1.OwnerReference{unknown(uuid.NewUUID()), configMap("absent", uuid.NewUUID())})
	}); err != nil {
		return err
	}
	uids, err := a.make(ctx, "owner", 1, nil)
	if err != nil {
		return err
	}
	name := a.made[n]
	if _, err := a.make(ctx, "held", n, func(_ int, o *unstructured.Unstructured) {
		o.SetFinalizers([]string{"bench.reap.dev/never"})
		o.SetOwnerReferences([]metav1.OwnerReference{blocking(configMap(name, uids[0]))})
	}); err != nil {
		return err
	}
	a.stuck = n + 1
	return a.delete(ctx, metav1.DeletePropagationForeground, name)
}

// make makes n objects and returns their UIDs; dress may be nil.
func (a *attacker) make(ctx context.Context, role string, n int, dress func(i int, o *unstructured.Unstructured)) ([]types.UID, error) {
	client := a.server.objects.Resource(configMaps.gvr).Namespace(a.ns)
	names, uids := make([]string, n), make([]types.UID, n)
	err := each(ctx, n, func(ctx context.Context, i int) error {
		names[i] = fmt.Sprintf("hostile-%s-%06d", role, i)
		o := configMaps.object(names[i])
		small(o)
		if dress != nil {
			dress(i, o)
		}
		made, err := client.Create(ctx, o, metav1.CreateOptions{})
		if err == nil {
			uids[i] = made.GetUID()
		}
		return err
	})
	a.made = append(a.made, names...)
	if err != nil {
		return nil, fmt.Errorf("making %d objects: %w", n, err)
	}
	return uids, nil
}

// delete deletes objects; some may have gone.
func (a *attacker) delete(ctx context.Context, policy metav1.DeletionPropagation, names ...string) error {
	client := a.server.meta.Resource(configMaps.gvr).Namespace(a.ns)
	return each(ctx, len(names), func(ctx context.Context, i int) error {
		err := client.Delete(ctx, names[i], metav1.DeleteOptions{PropagationPolicy: &policy})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

// patch patches the attacker's objects, each as fast as it is answered, until ctx is cancelled.
func (a *attacker) patch(ctx context.Context) {
	client := a.server.meta.Resource(configMaps.gvr).Namespace(a.ns)
	var loops errgroup.Group
	for _, name := range a.patched {
		loops.Go(func() error {
			for i := 0; ctx.Err() == nil; i++ {
				change := fmt.Appendf(nil, `{"metadata":{"annotations":{"bench.reap.dev/patch":"%d"}}}`, i)
				if _, err := client.Patch(ctx, name, types.MergePatchType, change, metav1.PatchOptions{}); err == nil {
					a.patches.Add(1)
				} else if apierrors.IsNotFound(err) {
					return nil // it was collected
				}
			}
			return nil
		})
	}
	_ = loops.Wait() // they return none
}

// each calls do with 0 to n-1, with as many at once as there are clients.
func each(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	pool, ctx := errgroup.WithContext(ctx)
	pool.SetLimit(clients)
	for i := range n {
		pool.Go(func() error { return do(ctx, i) })
	}
	return pool.Wait()
}

// settle is how long an attack runs before the measurements begin.
func (a attack) settle() time.Duration {
	if a.once {
		return time.Second // its cost may be over soon
	}
	return 10 * time.Second
}

func references(n int, owner func(i int) metav1.OwnerReference) []metav1.OwnerReference {
	all := make([]metav1.OwnerReference, n)
	for i := range all {
		all[i] = owner(i)
	}
	return all
}

func configMap(name string, uid types.UID) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: configMaps.gvr.GroupVersion().String(), Kind: configMaps.name, Name: name, UID: uid}
}

// unknown refers to an object of a kind that nobody serves.
func unknown(uid types.UID) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "nobody.bench.reap.dev/v1", Kind: "Nothing", Name: "nothing", UID: uid}
}

func blocking(r metav1.OwnerReference) metav1.OwnerReference {
	yes := true
	r.BlockOwnerDeletion = &yes
	return r
}
