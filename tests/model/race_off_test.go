//go:build !race

package model

// slowness divides how much is tried.
const slowness = 1

// deepStates is how many states of a deep world are explored.
const deepStates = wholeStates
