//go:build race

package model

// slowness divides how much is tried: the race detector makes every step many times
// slower, and finds little where each world has one goroutine.
const slowness = 5

// sampleStates bounds the states of each small world that are explored: the search that
// sees all of them runs without the race detector.
const sampleStates = 100
