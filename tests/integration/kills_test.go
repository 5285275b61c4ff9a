package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reap-dev/reap/tests/databases"
	"github.com/reap-dev/reap/tests/size"
)

// TestNothingIsLostOrMissedInAKilledCascade kills a server repeatedly in the middle of one cascade with all three policies, while
// writers go on with other objects, and informers of client-go's watch all of it through every kill. In the end the cascade is
// complete, every acknowledged write is there, and each informer holds what a fresh list shows, without an event too many or too
// few. The seed determines the objects, what the writers do and at which share of the cascade each kill comes, but not which
// requests it interrupts.
func TestNothingIsLostOrMissedInAKilledCascade(t *testing.T) {
	t.Parallel()
	seed := seedOf(t)
	random := rand.New(rand.NewPCG(seed, 0))
	s := start(t, "--gc-workers=2", "--https-listen-port", databases.FreePort(t))
	c := s.killedCascade(t, random, size.Of(150, 600, 20_000)/slowness, size.Of(20, 20, 150))

	busy := s.namespace(t, "writes")
	changes := firstOf(0)
	var followers []*follower
	for _, f := range []*follower{
		{k: configMaps}, {k: secrets},
		{k: secrets, ns: c.ns}, {k: configMaps, ns: busy},
		{k: configMaps, ns: c.ns, name: c.doomed[0].o.GetName()}, {k: configMaps, ns: busy, name: changes},
	} {
		followers = append(followers, follow(t, s.Kubeconfig, f))
	}
	for _, f := range followers {
		f.mustCatchUp(t, s)
	}
	end := make(chan struct{})
	var writing sync.WaitGroup
	var writers []*writer
	for id := range 2 {
		w := newWriter(t, s.Kubeconfig, busy, id, rand.New(rand.NewPCG(seed, uint64(1+id))))
		writers = append(writers, w)
		writing.Go(func() { w.run(t.Context(), end) })
	}
	stopWriting := sync.OnceFunc(func() { close(end); writing.Wait() })
	defer stopWriting()

	c.deleteAll(t, s)
	kills, interrupted := size.Of(1, 3, 10), 0
	for i := range kills {
		// About evenly over the cascade, and the last kill before its last quarter.
		share := random.Float64() * 1.5 / float64(kills-i+1)
		if random.IntN(4) == 0 {
			share = 0 // as soon as it is ready
		}
		c.awaitShare(t, s, share)
		s.kill()
		s.restart(t)
		toGo, toFree := c.remaining(t, s)
		t.Logf("after kill %d %d of %d objects have to go and %d have to be freed", i+1, toGo, c.deletions, toFree)
		if toGo+toFree > 0 {
			interrupted++
		}
	}
	c.awaitShare(t, s, 1) // by a watch, since many lists of so many objects would slow the cascade down
	await(t, "the end of the cascade", func(context.Context) (bool, any) {
		toGo, toFree := c.remaining(t, s)
		return toGo+toFree == 0, fmt.Sprintf("%d objects have to go and %d have to be freed", toGo, toFree)
	})
	c.mustEnd(t, s)
	stopWriting()
	if interrupted == 0 {
		t.Error("no kill came in the middle of the cascade")
	}

	acknowledged, unanswered, lost, relists, events := 0, 0, 0, 0, 0
	there := s.written(t, busy)
	for _, w := range writers {
		acknowledged, unanswered = acknowledged+w.acknowledged, unanswered+w.unanswered
		for _, loss := range w.losses(there) {
			lost++
			t.Error(loss)
		}
	}
	if want := 10 * kills; acknowledged < want {
		t.Errorf("only %d writes were acknowledged, not %d", acknowledged, want)
	}
	for name := range there {
		t.Errorf("nobody has made %s", name)
	}
	for _, f := range followers {
		f.mustCatchUp(t, s)
		f.mustBeInOrder(t)
		for _, w := range writers {
			f.mustHaveSeen(t, w.versions)
		}
		relists, events = relists+f.relists(), events+f.events
	}
	size.Power(t, fmt.Sprintf("seed=%d objects=%d kills=%d interrupted=%d acknowledged=%d unanswered=%d lost=%d informers=%d events=%d relists=%d",
		seed, len(c.left)+c.deletions, kills, interrupted, acknowledged, unanswered, lost, len(followers), events, relists))
}

// killedCascade makes about n objects: owners with so many dependents, a third of them to be deleted with each policy.
func (s *server) killedCascade(t *testing.T, random *rand.Rand, n, dependents int) *crashWorld {
	t.Helper()
	c := s.newCrashWorld(t, "killed", configMaps, secrets)
	living := s.create(t, configMaps, c.ns, "living")
	c.stay([]string{"living"})
	half := dependents / 2
	for i := 0; len(c.left)+c.deletions < n; i++ {
		name := func(what string) string { return fmt.Sprintf("%s-%d", what, i) }
		o := s.create(t, configMaps, c.ns, name("owner"))
		switch policy := []metav1.DeletionPropagation{background, foreground, orphan}[i%3]; policy {
		case background:
			c.deletions += len(c.many(t, s, half, configMaps, name("map"), owner(o)))
			c.deletions += len(c.many(t, s, half-half/5, secrets, name("secret"), owner(o)))
			c.stay(c.many(t, s, half/5, secrets, name("of-two"), owner(o), owner(living)), living.GetUID())
			c.doom(o, policy)
		case foreground:
			inner := s.create(t, configMaps, c.ns, name("inner"), blocking(o))
			c.deletions += 1 + len(c.many(t, s, half, configMaps, name("map"), blocking(o)))
			c.deletions += len(c.many(t, s, half-1, secrets, name("secret"), blocking(inner)))
			c.doom(o, policy)
		case orphan:
			c.stay(c.many(t, s, half, configMaps, name("map"), owner(o)))
			c.stay(c.many(t, s, half, secrets, name("secret"), owner(o)))
			c.doom(o, policy)
		}
	}
	c.made(t, s, random)
	return c
}

// awaitShare waits until a share of the Secrets that are still to go has gone.
func (c *crashWorld) awaitShare(t *testing.T, s *server, share float64) {
	t.Helper()
	if share == 0 {
		return
	}
	deleted := s.watchDeletions(t, secrets, c.ns) // from before the list on, so that it shows all that the list does
	there, err := s.uids(t.Context(), secrets, c.ns)
	if err != nil {
		t.Fatal(err)
	}
	toGo := 0
	for name := range there {
		if _, stays := c.left[name]; !stays {
			toGo++
		}
	}
	for range int(share * float64(toGo)) {
		deleted()
	}
}

// remaining returns how many objects have to go, and how many that stay have to lose a reference.
func (c *crashWorld) remaining(t *testing.T, s *server) (toGo, toFree int) {
	t.Helper()
	for _, k := range c.kinds {
		list, err := s.meta.Resource(k.gvr).Namespace(c.ns).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range list.Items {
			want, stays := c.left[o.Name]
			switch {
			case o.Name == rootCA:
			case !stays:
				toGo++
			case len(o.OwnerReferences) != len(want):
				toFree++
			}
		}
	}
	return toGo, toFree
}
