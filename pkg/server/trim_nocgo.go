//go:build !cgo

package server

// trim does nothing: without C, SQLite's memory is Go's.
func trim() {}
