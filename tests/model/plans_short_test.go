//go:build !releasetest

package model

// plans is in how many random worlds deletions are foretold.
const plans = 1500
