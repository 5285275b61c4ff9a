package datastore

import "strings"

// expiringBelow has the prefixes of the keys that the API server gives a lease: Events, and the leases of several API servers.
var expiringBelow = []string{"/registry/events/", "/registry/masterleases/", "/registry/peerserverleases/"}

// mayExpire reports whether a key may have a lease. Any other key of the API server's has got it by damage: one bit of a row
// in SQLite makes a lease of one second, and the collector would take the expiry of an owner for its deletion.
func mayExpire(key string) bool {
	if !strings.HasPrefix(key, "/registry/") {
		return true // another client's
	}
	for _, prefix := range expiringBelow {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}
