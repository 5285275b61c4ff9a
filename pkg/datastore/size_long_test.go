//go:build releasetest

package datastore

// writesOfOneKey is how often one key is written while it is read.
const writesOfOneKey = 100_000
