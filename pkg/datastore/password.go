package datastore

import (
	"net/url"
	"strings"
)

// withoutPassword is an error that does not tell the endpoint's password: drivers, and the parser of URLs, put what they
// could not understand into theirs.
func withoutPassword(err error, endpoint string) error {
	if err == nil {
		return nil
	}
	_, rest, _ := strings.Cut(endpoint, "://")
	authority, _, _ := strings.Cut(rest, "/") // of a URL; in other forms a password may hold a slash
	text := err.Error()
	clean := text
	for _, part := range []string{rest, authority} {
		user := beforeLast(part, "@")
		if _, password, _ := strings.Cut(user, ":"); user != part && password != "" {
			clean = strings.ReplaceAll(clean, password, "…")
			if plain, unescapable := url.PathUnescape(password); unescapable == nil {
				clean = strings.ReplaceAll(clean, plain, "…")
			}
		}
	}
	if clean == text {
		return err
	}
	return redacted{clean, err}
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
