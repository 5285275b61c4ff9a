package integration

import "testing"

// Objects of an ignored resource are not collected, and do not prevent the collection of their dependents.
func TestIgnoredResourceIsNotCollected(t *testing.T) {
	t.Parallel()
	s := start(t, "--gc-ignore=secrets")
	ns := s.namespace(t, "ignored")
	ignored := s.create(t, secrets, ns, "ignored", nobody(configMaps))
	o := s.create(t, secrets, ns, "owner")
	kept := s.create(t, configMaps, ns, "kept", owner(o))
	s.awaitGone(t, configMaps, s.create(t, configMaps, ns, "dependent", nobody(secrets)))
	s.barrier(t, configMaps, ns)
	s.mustExist(t, secrets, ignored)
	s.mustExist(t, configMaps, kept)
}
