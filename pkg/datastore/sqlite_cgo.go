//go:build cgo

package datastore

import _ "github.com/mattn/go-sqlite3" // the driver that kine uses with cgo

const sqliteDriver = "sqlite3"
