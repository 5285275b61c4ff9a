package datastore

import (
	"errors"
	"net/url"
	"slices"
	"strings"
)

// Errors about endpoints whose password cannot be told from the rest: parsers print pieces of them.
var (
	errNoURL = errors.New("the endpoint is no URL: percent-encode special characters in the user, the password and the parameters, " +
		"such as %2F for a slash, and give the port as a number (it is not shown, since it may hold a password)")
	errNoDSN = errors.New("the endpoint is not of the form mysql://user:password@host:3306/database, or with tcp(host:3306) or unix(PATH) in place of host:3306: end it with a slash and the database, " +
		"and percent-encode special characters in the parameters (it is not shown, since it may hold a password)")
)

// withoutPassword is an error that does not tell the endpoint's password: drivers, and the parser of URLs, put what they
// could not understand into theirs.
func withoutPassword(err error, endpoint string) error {
	if err == nil {
		return nil
	}
	passwords, unclear := passwordsIn(endpoint)
	if unclear != nil {
		return unclear
	}
	text := err.Error()
	clean := text
	for _, password := range passwords {
		clean = strings.ReplaceAll(clean, password, "…")
	}
	if clean == text {
		return err
	}
	return redacted{clean, err}
}

// passwordsIn returns the passwords of an endpoint as they are written and as they are meant, or an error if there may be pieces of one
// anywhere in it.
func passwordsIn(endpoint string) ([]string, error) {
	_, rest, _ := strings.Cut(endpoint, "://")
	var passwords []string
	switch scheme(endpoint) {
	case "postgres", "postgresql":
		u, err := url.Parse(endpoint)
		if err != nil {
			return nil, errNoURL
		}
		query, err := url.ParseQuery(u.RawQuery)
		// A password such as 12/xyz leaves a URL that can be parsed: the rest of it is in the path, up to the @.
		if err != nil || strings.Contains(u.EscapedPath()+u.EscapedFragment(), "@") {
			return nil, errNoURL
		}
		plain, _ := u.User.Password()
		passwords = slices.Concat([]string{plain}, query["password"], query["sslpassword"])
		rest = rest[:strings.IndexAny(rest+"/", "/?#")]
	case "mysql": // no URL: https://github.com/go-sql-driver/mysql#dsn-data-source-name
		slash := strings.LastIndex(rest, "/")
		if strings.Contains(rest[slash+1:], "@") {
			return nil, errNoDSN
		}
		rest = rest[:max(0, slash)]
	}
	if user := beforeLast(rest, "@"); user != rest {
		_, written, _ := strings.Cut(user, ":")
		passwords = append(passwords, written)
	}
	return slices.DeleteFunc(passwords, func(p string) bool { return p == "" }), nil
}

// redacted is an error with another text.
type redacted struct {
	text string
	err  error
}

func (r redacted) Error() string { return r.text }
func (r redacted) Unwrap() error { return r.err }

// beforeLast returns what is before the last sep, or all of s if there is none.
func beforeLast(s, sep string) string {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i]
	}
	return s
}
