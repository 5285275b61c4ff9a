//go:build !race

package model

// slowness divides the amount of work.
const slowness = 1

// sampleStates bounds the explored states of each small world; 0 means all.
const sampleStates = 0
