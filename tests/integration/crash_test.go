package integration

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/tests/size"
)

// TestNothingIsLostByKillsAtRandomMoments kills a server repeatedly in the middle of cascades with all three policies and of rings that
// are being broken; the next process ends them. Afterwards every acknowledged write is there, no object with a solid owner
// is gone, and no dangling object is left. The seed determines the objects and after how many deletions each kill comes,
// but not which calls of the collector it interrupts.
func TestNothingIsLostByKillsAtRandomMoments(t *testing.T) {
	t.Parallel()
	seed := seedOf(t)
	random := rand.New(rand.NewPCG(seed, 0))
	s := start(t, "--gc-workers=2")
	kills := 0
	for i := range size.Of(2, 5, 20) {
		c := s.crashWorld(t, random, i)
		after := random.IntN(c.deletions)
		deleted := s.watchDeletions(t, configMaps, c.ns)
		c.deleteAll(t, s)
		for range after {
			deleted()
		}
		s.kill()
		kills++
		for s.restart(t); random.IntN(4) == 0; s.restart(t) { // as soon as it is ready
			s.kill()
			kills++
		}
		c.mustEnd(t, s)
		if t.Failed() {
			t.Fatalf("in round %d, killed after %d of %d deletions", i, after, c.deletions)
		}
	}
	size.Power(t, fmt.Sprintf("seed=%d kills=%d", seed, kills))
}

// crashWorld is what one round makes in a namespace of its own. No name stands for objects of two kinds.
type crashWorld struct {
	ns    string
	kinds []kind
	// deletions is how many objects have to go, and doomed those that users delete, with the policies.
	deletions int
	doomed    []doomed
	// left has the references of each object that has to be there in the end, by name, and uids all UIDs.
	left map[string][]types.UID
	uids map[string]types.UID
}

type doomed struct {
	o      *unstructured.Unstructured
	policy metav1.DeletionPropagation
}

// newCrashWorld makes the namespace for objects of these kinds. Owners that users delete are ConfigMaps.
func (s *server) newCrashWorld(t *testing.T, base string, kinds ...kind) *crashWorld {
	t.Helper()
	return &crashWorld{ns: s.namespace(t, base), kinds: kinds, left: map[string][]types.UID{}, uids: map[string]types.UID{}}
}

// stay says that objects have to be there in the end, with these owners.
func (c *crashWorld) stay(names []string, owners ...types.UID) {
	for _, name := range names {
		c.left[name] = owners
	}
}

// many makes n objects and returns their names.
func (c *crashWorld) many(t *testing.T, s *server, n int, k kind, name string, owners ...metav1.OwnerReference) (names []string) {
	t.Helper()
	s.createMany(t, n, k, c.ns, name, owners...)
	for i := range n {
		names = append(names, fmt.Sprintf("%s-%d", name, i))
	}
	return names
}

// doom says that a user is going to delete an object.
func (c *crashWorld) doom(o *unstructured.Unstructured, policy metav1.DeletionPropagation) {
	c.doomed = append(c.doomed, doomed{o, policy})
	c.deletions++
}

// made is called when all objects are made, and shuffles the deletions.
func (c *crashWorld) made(t *testing.T, s *server, random *rand.Rand) {
	t.Helper()
	random.Shuffle(len(c.doomed), func(i, j int) { c.doomed[i], c.doomed[j] = c.doomed[j], c.doomed[i] })
	made := 0
	for _, k := range c.kinds {
		uids, err := s.uids(t.Context(), k, c.ns)
		if err != nil {
			t.Fatal(err)
		}
		made += len(uids)
		for name, uid := range uids {
			if _, stays := c.left[name]; stays {
				c.uids[name] = uid
			}
		}
	}
	if made != len(c.left)+c.deletions || len(c.uids) != len(c.left) {
		t.Fatalf("%d objects were made, %d are to stay and %d to go", made, len(c.left), c.deletions)
	}
}

// crashWorld makes the objects.
func (s *server) crashWorld(t *testing.T, random *rand.Rand, round int) *crashWorld {
	t.Helper()
	c := s.newCrashWorld(t, fmt.Sprintf("crash-%d", round), configMaps)
	many := func(n int, name string, owners ...metav1.OwnerReference) []string {
		t.Helper()
		return c.many(t, s, n, configMaps, name, owners...)
	}
	living := s.create(t, configMaps, c.ns, "living")
	c.stay([]string{"living"})
	c.stay(many(20, "bystander", owner(living)), living.GetUID())

	o := s.create(t, configMaps, c.ns, "background")
	c.deletions += len(many(20+random.IntN(40), "of-background", owner(o)))
	c.stay(many(10, "of-two", owner(o), owner(living)), living.GetUID())
	c.doom(o, background)

	o = s.create(t, configMaps, c.ns, "foreground")
	for i := range 3 {
		inner := s.create(t, configMaps, c.ns, fmt.Sprintf("inner-%d", i), blocking(o))
		c.deletions += 1 + len(many(1+random.IntN(15), fmt.Sprintf("of-inner-%d", i), blocking(inner)))
	}
	c.doom(o, foreground)

	o = s.create(t, configMaps, c.ns, "orphaning")
	c.stay(many(20+random.IntN(20), "orphan", owner(o)))
	c.doom(o, orphan)

	for i := range 3 {
		ring := s.ring(t, c.ns, fmt.Sprintf("ring-%d", i), slices.Repeat([]kind{configMaps}, 1+random.IntN(5))...)
		c.deletions += len(ring) - 1
		c.doom(ring[random.IntN(len(ring))].o, foreground)
	}

	c.made(t, s, random)
	return c
}

// deleteAll does what the users do.
func (c *crashWorld) deleteAll(t *testing.T, s *server) {
	t.Helper()
	for _, d := range c.doomed {
		s.deleteAs(t, configMaps, d.o, d.policy)
	}
}

// mustEnd waits until the namespace holds what it has to and the collector has come to rest.
func (c *crashWorld) mustEnd(t *testing.T, s *server) {
	t.Helper()
	await(t, "the end of what was interrupted", func(ctx context.Context) (bool, any) {
		diff, err := c.differs(ctx, s)
		return err == nil && diff == "", fmt.Sprint(diff, err)
	})
	for _, k := range c.kinds {
		s.barrier(t, k, c.ns)
	}
	if diff, err := c.differs(t.Context(), s); err != nil || diff != "" {
		t.Errorf("when the collector rests: %s (%v)", diff, err)
	}
}

// differs says in which object the namespace is not as it should be.
func (c *crashWorld) differs(ctx context.Context, s *server) (string, error) {
	found := map[string]types.UID{}
	for _, k := range c.kinds {
		list, err := s.meta.Resource(k.gvr).Namespace(c.ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		for _, o := range list.Items {
			if o.Name == rootCA {
				continue
			}
			found[o.Name] = o.UID
			if want, stays := c.left[o.Name]; !stays {
				return o.Name + " is there", nil
			} else if owners := ownersOf(&o); !slices.Equal(owners, want) {
				return fmt.Sprintf("%s has the owners %q, not %q", o.Name, owners, want), nil
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.uids)) {
		if found[name] != c.uids[name] {
			return fmt.Sprintf("%s has gone or is another", name), nil
		}
	}
	return "", nil
}

func ownersOf(o metav1.Object) (uids []types.UID) {
	for _, r := range o.GetOwnerReferences() {
		uids = append(uids, r.UID)
	}
	return uids
}
