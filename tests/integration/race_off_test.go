//go:build !race

package integration

// slowness multiplies how long is waited at most.
const slowness = 1
