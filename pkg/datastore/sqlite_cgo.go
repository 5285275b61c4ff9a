//go:build cgo

package datastore

import (
	"database/sql/driver"
	"errors"
	"syscall"

	"github.com/mattn/go-sqlite3" // the driver that kine uses with cgo
)

const sqliteDriver = "sqlite3"

// watchedDriver returns the driver that opens kine's data source names as they are.
func watchedDriver() driver.Driver { return &sqlite3.SQLiteDriver{} }

// sqliteCode returns SQLite's extended result code, and the system's error number if there is one.
func sqliteCode(err error) (code int, errno syscall.Errno, ok bool) {
	var e sqlite3.Error
	if !errors.As(err, &e) {
		return 0, 0, false
	}
	return max(int(e.ExtendedCode), int(e.Code)), e.SystemErrno, true
}
