package pki

import (
	"crypto/x509"
	"time"
)

const (
	leafLifetime = 365 * 24 * time.Hour
	// renewBefore is how long a leaf must still last for a start to keep it: a
	// device may not be started again for that long.
	renewBefore = 90 * 24 * time.Hour
)

var (
	// firstInstant is where every certificate here begins, CA and leaf: the first
	// moment that a Unix clock can show. A device without a battery boots in 1970 or
	// at its image's date, and client and server must trust each other then too.
	// Nothing is given away: a beginning protects against signatures made before
	// their time by someone else who held the key, and there is no such time for a
	// key made here.
	firstInstant = time.Unix(0, 0).UTC()

	// noEnd is RFC 5280's "no well-defined expiration date" (section 4.1.2.5), and
	// the last instant that X.509 and crypto/x509 can write. CAs end here: nobody is
	// there to give a new CA to the clients of a device in the field, and an end
	// counted from a wrong clock would be a wrong end.
	noEnd = time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC)

	// earliestRightClock is when Kubernetes v1.36.3, which is compiled into this
	// binary, was published. A clock that shows less is wrong.
	earliestRightClock = time.Date(2026, time.July, 22, 0, 0, 0, 0, time.UTC)
)

// leafEnd is the end of a leaf made now: a year from now, and no later than its
// CA's end. A clock that is known to be wrong cannot say when a year is over,
// and the leaf must still be good once the clock is set; so it gets its CA's end,
// until leafDue sees a clock that can be right.
func leafEnd(now, caEnd time.Time) time.Time {
	end := now.Add(leafLifetime)
	if now.Before(earliestRightClock) || end.After(caEnd) {
		return caEnd
	}
	return end
}

// leafDue says whether the time has come to replace leaf. It keeps still where a
// new leaf would not last longer (the CA itself is near its end), so that a
// clock in the far future does not cause a write at every start.
func leafDue(leaf *x509.Certificate, now, caEnd time.Time) bool {
	end := leafEnd(now, caEnd)
	if madeWithoutClock(leaf, caEnd) {
		return end.Before(caEnd)
	}
	known := now
	if known.Before(earliestRightClock) {
		known = earliestRightClock
	}
	return known.Add(renewBefore).After(leaf.NotAfter) && end.After(leaf.NotAfter)
}

// replacementEnd is leafEnd for a leaf that takes the place of old (nil for
// none). It is never before old's end: old was made by a clock that had come
// further, and a clock that may have fallen back must not make a leaf that is
// over once it is right again.
func replacementEnd(old *x509.Certificate, now, caEnd time.Time) time.Time {
	end := leafEnd(now, caEnd)
	if old == nil || madeWithoutClock(old, caEnd) || old.NotAfter.After(caEnd) || old.NotAfter.Before(end) {
		return end
	}
	return old.NotAfter
}

// madeWithoutClock also holds for a leaf that a CA's own end cut short; leafDue
// keeps that one, since a new leaf would be cut short as well.
func madeWithoutClock(leaf *x509.Certificate, caEnd time.Time) bool {
	return leaf.NotAfter.Equal(caEnd)
}
