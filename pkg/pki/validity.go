package pki

import (
	"crypto/x509"
	"time"
)

const (
	leafLifetime = 365 * 24 * time.Hour
	// renewBefore is how long before it expires a leaf is renewed: a device may not
	// be started again for that long.
	renewBefore = 90 * 24 * time.Hour
)

var (
	// firstInstant is NotBefore of every certificate made here, CA and leaf: the
	// first time that a Unix clock can show. A device without a battery boots in
	// 1970 or at its image's date, and client and server must trust each other even
	// then. This costs no security: NotBefore protects against signatures by an
	// earlier holder of the key, and a key made here has none.
	firstInstant = time.Unix(0, 0).UTC()

	// noEnd is RFC 5280's "no well-defined expiration date" (section 4.1.2.5), and
	// the last time that X.509 and crypto/x509 can represent. CAs expire then: nobody
	// distributes a new CA to the clients of a device in the field, and an expiry
	// computed from a wrong clock would be wrong.
	noEnd = time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC)

	// earliestRightClock is when Kubernetes v1.37.1, which is compiled into this
	// binary, was published. A clock that shows an earlier time is wrong.
	earliestRightClock = time.Date(2026, time.September, 23, 0, 0, 0, 0, time.UTC)

	// latestRightClock is when a clock counts as wrong again: a battery that runs empty can leave any date behind. A
	// device that is still in use then keeps working, with certificates as if it had no clock.
	latestRightClock = earliestRightClock.AddDate(10, 0, 0)
)

// ClockIsAhead reports whether a clock that shows now must be wrong because it is years ahead.
func ClockIsAhead(now time.Time) bool { return now.After(latestRightClock) }

// plausible reports whether a clock that shows now can be right.
func plausible(now time.Time) bool { return !now.Before(earliestRightClock) && !ClockIsAhead(now) }

// leafEnd returns when a leaf made now expires: after a year, but not later than its
// CA. If the clock is known to be wrong, a year cannot be computed, and the leaf must
// still be valid once the clock is set. It then expires with its CA, and leafDue
// replaces it when the clock may be right.
func leafEnd(now, caEnd time.Time) time.Time {
	end := now.Add(leafLifetime)
	if !plausible(now) || end.After(caEnd) {
		return caEnd
	}
	return end
}

// leafDue reports whether leaf should be replaced. It returns false if a new leaf
// would not last longer because the CA itself expires, so that a clock in the far
// future does not cause a write at every start.
func leafDue(leaf *x509.Certificate, now time.Time, ca *x509.Certificate) bool {
	end := leafEnd(now, ca.NotAfter)
	if madeWithoutClock(leaf, ca.NotAfter) && end.Before(ca.NotAfter) {
		return true
	}
	if notYetValid(leaf, now) && leaf.NotBefore.After(ca.NotBefore) {
		return true
	}
	known := now
	if known.Before(earliestRightClock) {
		known = earliestRightClock
	}
	return known.Add(renewBefore).After(leaf.NotAfter) && end.After(leaf.NotAfter)
}

// replacementEnd returns when a leaf that replaces old (nil for none) expires: as
// leafEnd, but never before old. If old expires later, the clock has gone back since
// it was made, and the new leaf must still be valid once the clock is right again.
func replacementEnd(old *x509.Certificate, now, caEnd time.Time) time.Time {
	end := leafEnd(now, caEnd)
	if old == nil || madeWithoutClock(old, caEnd) || old.NotAfter.After(caEnd) || old.NotAfter.Before(end) {
		return end
	}
	return old.NotAfter
}

// madeWithoutClock reports whether leaf was made while the clock was wrong. It also
// returns true for a leaf that expires early because its CA does. leafDue keeps such
// a leaf, since a new one would expire at the same time.
func madeWithoutClock(leaf *x509.Certificate, caEnd time.Time) bool {
	return leaf.NotAfter.Equal(caEnd) || leaf.NotAfter.After(latestRightClock.Add(leafLifetime))
}

// notYetValid reports whether cert was made by a clock that was ahead: no certificate
// made here begins after the first instant unless its CA does.
func notYetValid(cert *x509.Certificate, now time.Time) bool {
	return plausible(now) && cert.NotBefore.After(now)
}
