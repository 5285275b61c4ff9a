package datastore

import (
	"errors"
	"fmt"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
)

// TestCompactionIsOfKinesDatabase: kine's driver takes a database of its own where the endpoint names none, and PostgreSQL's in lower case.
func TestCompactionIsOfKinesDatabase(t *testing.T) {
	for endpoint, want := range map[string]string{
		"":                           "postgres@localhost/kubernetes",
		"a:b@db.example":             "a@db.example/kubernetes",
		"a:b@db.example/":            "a@db.example/kubernetes",
		"a:b@db.example/Reap?port=1": "a@db.example/reap",
	} {
		c, err := postgresConfig(endpoint)
		if err != nil {
			t.Errorf("postgres://%s: %v", endpoint, err)
		} else if got := c.User + "@" + c.Host + "/" + c.Database; got != want {
			t.Errorf("postgres://%s is %s, want %s", endpoint, got, want)
		}
	}
	for endpoint, want := range map[string]string{
		"":                           "root@/var/run/mysqld/mysqld.sock/kubernetes",
		"a:b@tcp(db.example:1)/":     "a@db.example:1/kubernetes",
		"a:b@tcp(db.example:1)/Reap": "a@db.example:1/Reap",
	} {
		c, err := mysqlConfig(endpoint)
		if err != nil {
			t.Errorf("mysql://%s: %v", endpoint, err)
		} else if got := c.User + "@" + c.Addr + "/" + c.DBName; got != want {
			t.Errorf("mysql://%s is %s, want %s", endpoint, got, want)
		}
	}
}

// TestLabelsOfErrorsAreFew: the text of an error would make a series of each connection.
func TestLabelsOfErrorsAreFew(t *testing.T) {
	for want, err := range map[string]error{
		"": nil, "57P01": fmt.Errorf("closed: %w", &pgconn.PgError{Code: "57P01"}), "1020": &mysql.MySQLError{Number: 1020},
		"other": errors.New("read tcp 127.0.0.1:40001: connection reset by peer"),
	} {
		if got := errCode(err); got != want {
			t.Errorf("%v has the label %q, want %q", err, got, want)
		}
	}
}
