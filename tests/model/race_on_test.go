//go:build race

package model

// slowness divides how much is tried: the race detector makes every step many times
// slower, and finds little where each world has one goroutine.
const slowness = 5
