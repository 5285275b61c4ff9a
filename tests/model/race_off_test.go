//go:build !race

package model

// slowness divides how much is tried.
const slowness = 1
