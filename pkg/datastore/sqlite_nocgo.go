//go:build !cgo

package datastore

import (
	"database/sql/driver"
	"errors"
	"syscall"

	"modernc.org/sqlite" // the driver that kine uses without cgo
)

const sqliteDriver = "sqlite"

// watchedDriver returns none: kine translates the data source name for this driver, and keeps the result to itself.
func watchedDriver() driver.Driver { return nil }

// sqliteCode returns SQLite's extended result code.
func sqliteCode(err error) (code int, errno syscall.Errno, ok bool) {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return 0, 0, false
	}
	return e.Code(), 0, true
}
