//go:build !cgo

package datastore

import _ "modernc.org/sqlite" // the driver that kine uses without cgo

const sqliteDriver = "sqlite"
