//go:build !race

package integration

// slowness multiplies how long is waited at most.
const slowness = 1

// underRace is empty: without the race detector all tests run.
var underRace []string
