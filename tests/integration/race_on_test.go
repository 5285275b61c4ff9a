//go:build race

package integration

// slowness multiplies how long is waited at most: the race detector makes a server many times slower.
const slowness = 4
