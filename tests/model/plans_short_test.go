//go:build !releasetest

package model

// plans is the number of random worlds in which deletions are planned.
const plans = 1500
