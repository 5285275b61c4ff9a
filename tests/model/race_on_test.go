//go:build race

package model

// slowness divides the amount of work: the race detector makes every step many times
// slower, and finds little where each world has one goroutine.
const slowness = 5

// sampleStates bounds the explored states of each small world: the search of all states
// runs without the race detector.
const sampleStates = 100
