//go:build !race

package model

// slowness divides how much is tried.
const slowness = 1

// sampleStates bounds the states of each small world that are explored: all are.
const sampleStates = 0
