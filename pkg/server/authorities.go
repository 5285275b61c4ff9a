package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sirupsen/logrus"

	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/datastore"
	"github.com/reap-dev/reap/pkg/pki"
)

// Servers of one datastore need one identity: the tokens and certificates that one issues have to be good at the others, and
// the leader publishes its authority to all namespaces. So a datastore that several servers may use keeps the identity
// of its servers, and each start compares its own.

// authoritiesKey is the key of the identity in the datastore, as JSON.
const authoritiesKey = "/reap/authorities"

// authoritiesFile holds a copy of the identity in the datastore as it was when this data directory last agreed with it. As long as they are
// equal, a difference to the certificates has been made here, by an operator who replaces an authority.
func authoritiesFile(pkiDir string) string { return filepath.Join(pkiDir, "authorities.json") }

// notes is the part of a datastore.Store that agree needs.
type notes interface {
	Note(ctx context.Context, key string) (datastore.Note, error)
	WriteNote(ctx context.Context, key string, value []byte, before datastore.Note) (bool, error)
}

// agreeAttempts is how often a start looks again because another server has written the identity at the same moment.
const agreeAttempts = 5

// agree returns an error if the servers that share the datastore have other authorities than this data directory, and otherwise
// records those of this one. A new data directory has none yet: agree is called before they are made, so that none are made that
// no other server trusts, and after that. The caller holds the certificates' lock.
func (s *server) agree(ctx context.Context, store notes) error {
	if !s.cfg.SharedDatastore() {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, datastoreTimeout, fmt.Errorf("no answer within %s", datastoreTimeout))
	defer cancel()
	for range agreeAttempts {
		agreed, err := s.tryToAgree(ctx, store)
		if agreed || err != nil {
			return err
		}
	}
	return errors.New("comparing the certificate authorities with those of the datastore: other servers change them all the time: start again")
}

// tryToAgree returns false if another server has written at the same moment.
func (s *server) tryToAgree(ctx context.Context, store notes) (bool, error) {
	dir := config.PKIDir(s.cfg.DataDir)
	own, err := pki.ReadIdentity(dir)
	if err != nil {
		return false, fmt.Errorf("comparing the certificate authorities with those of the datastore: %w: restore it from a backup", err)
	}
	key := authoritiesKey + s.etcdPrefix()
	kept, err := store.Note(ctx, key)
	if err != nil {
		return false, fmt.Errorf("comparing the certificate authorities with those of the datastore: %w", err)
	}
	var others []string
	if kept.Revision > 0 {
		var known pki.Identity
		if err := json.Unmarshal(kept.Value, &known); err != nil {
			return false, fmt.Errorf("comparing the certificate authorities with those of the datastore: reading %s: %w", key, err)
		}
		others = own.Differs(known)
	}
	replaced := false
	if len(others) > 0 {
		if replaced, err = agreedOn(dir, kept.Value); err != nil {
			return false, err
		}
		if !replaced && !s.cfg.NewAuthorities {
			return false, fmt.Errorf("the other servers of this datastore have other authorities than %s (%s), so tokens and certificates of one would be refused by the other: "+
				"replace that directory by a copy of <data-dir>/pki of one of them; if none of them will run again, start with --new-authorities", dir, strings.Join(others, ", "))
		}
	}
	if !own.Complete() {
		return true, nil
	}
	value, err := json.Marshal(own)
	if err != nil {
		return false, err
	}
	if !bytes.Equal(value, kept.Value) {
		written, err := store.WriteNote(ctx, key, value, kept)
		if err != nil {
			// A database that takes no writes must not keep a server from starting that can be read.
			logrus.WithError(err).Warn("cannot record the certificate authorities in the datastore")
			return true, nil
		}
		if !written {
			return false, nil
		}
		switch {
		case replaced:
			logrus.WithField("authorities", others).Info("the datastore's servers have new authorities from now on: copy the data directory's pki to the others")
		case len(others) > 0:
			logrus.WithField("authorities", others).Warn("the datastore's servers have new authorities from now on, as --new-authorities asks for")
		}
	}
	return true, rememberAgreement(dir, value)
}

// etcdPrefix returns the prefix of all objects' keys if the user has set one: clusters with different prefixes share an etcd, and nothing else.
func (s *server) etcdPrefix() (prefix string) {
	for _, arg := range s.cfg.KubeAPIServerArgs {
		if value, found := strings.CutPrefix(arg, "etcd-prefix="); found {
			prefix = "/" + strings.Trim(value, "/")
		}
	}
	return prefix
}

// agreedOn reports whether this data directory last agreed with an identity in the datastore.
func agreedOn(pkiDir string, value []byte) (bool, error) {
	last, err := os.ReadFile(authoritiesFile(pkiDir))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading which authorities the datastore had: %w", err)
	}
	return bytes.Equal(last, value), nil
}

func rememberAgreement(pkiDir string, value []byte) error {
	if same, err := agreedOn(pkiDir, value); same || err != nil {
		return err
	}
	if err := replaceSynced(authoritiesFile(pkiDir), value); err != nil {
		return fmt.Errorf("recording which authorities the datastore has: %w", err)
	}
	return nil
}
