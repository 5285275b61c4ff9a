package config

import (
	"crypto/sha256"
	"fmt"
)

// Digests returns a digest of each option's value, by the option's name. They tell which options differ between two servers, and
// not what the values are, one of which may be a password.
func (s Server) Digests() map[string]string {
	digests := map[string]string{}
	for _, o := range s.options() {
		digests[o.name] = fmt.Sprintf("%x", sha256.Sum256([]byte(o.get())))[:16]
	}
	return digests
}
