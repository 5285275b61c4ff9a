package datastore

import (
	"context"
	"crypto/tls"
	"errors"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// asks returns a function that asks the database at an endpoint whether it answers. kine asks too, but logs each failure, and takes a
// wrong password for a database that is not there yet.
func asks(endpoint string) (ask func(context.Context) error, err error) {
	_, dsn, _ := strings.Cut(endpoint, "://")
	switch scheme(endpoint) {
	case "postgres", "postgresql":
		config, err := postgresConfig(dsn)
		return func(ctx context.Context) error {
			c, err := pgx.ConnectConfig(ctx, config.Copy())
			if err != nil {
				return answered(err)
			}
			return c.Close(ctx)
		}, err
	case "mysql":
		config, err := mysqlConfig(dsn)
		if err != nil {
			return nil, err
		}
		connector, err := mysql.NewConnector(config)
		return func(ctx context.Context) error {
			c, err := connector.Connect(ctx)
			if err != nil {
				return answered(err)
			}
			return c.Close()
		}, err
	}
	return func(ctx context.Context) error {
		c, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(endpoint, ",")})
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }() // it has only read
		_, err = c.Get(ctx, canary)
		return err
	}, nil
}

// The errors of MySQL and PostgreSQL that tell that waiting does not help, and that there is no such database yet: kine makes it.
var (
	mysqlRefuses   = []uint16{1044, 1045, 1130, 1251, 1698}
	mysqlNone      = uint16(1049)
	postgresAccess = "28" // the class of the codes
	postgresNone   = "3D000"
)

// answered returns no error if the database has answered that it has no database of that name.
func answered(err error) error {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == postgresNone {
		return nil
	}
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok && e.Number == mysqlNone {
		return nil
	}
	return err
}

// refusesUs reports whether a database has answered that it does not let the server in, or is not the one that the endpoint means: the
// operator has to change something first.
func refusesUs(err error) bool {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return strings.HasPrefix(e.Code, postgresAccess)
	}
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return slices.Contains(mysqlRefuses, e.Number)
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	for _, refusal := range []error{mysql.ErrNoTLS, rpctypes.ErrUserEmpty, rpctypes.ErrPermissionDenied, rpctypes.ErrInvalidAuthToken} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}
