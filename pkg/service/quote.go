package service

import (
	"errors"
	"strings"
	"unicode/utf8"
)

// oneLine fails if text cannot stand in a line of a unit, a shell's script and an environment file alike. systemd ends
// a line at a carriage return too, wherever that is, takes only UTF-8, and drops variables with control characters.
func oneLine(text string) error {
	switch {
	case strings.ContainsAny(text, "\n\r"):
		return errors.New("holds a line break")
	case !utf8.ValidString(text):
		return errors.New("is not UTF-8")
	case strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
		return errors.New("holds a control character")
	}
	return nil
}

// shellQuote writes words for a shell, on one line.
func shellQuote(words ...string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return strings.Join(quoted, " ")
}

var errUnquoted = errors.New("a quotation is not closed")

// shellSplit returns the words that a shell reads in a line. It knows quotes and backslashes, and nothing that a shell
// replaces.
func shellSplit(line string) (words []string, err error) {
	var word strings.Builder
	inWord := false
	for i := 0; i < len(line); i++ {
		switch b := line[i]; b {
		case ' ', '\t':
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
		case '\'':
			inWord = true
			n := strings.IndexByte(line[i+1:], '\'')
			if n < 0 {
				return nil, errUnquoted
			}
			word.WriteString(line[i+1 : i+1+n])
			i += n + 1
		case '"':
			inWord = true
			for i++; ; i++ {
				if i >= len(line) {
					return nil, errUnquoted
				}
				if line[i] == '"' {
					break
				}
				if line[i] == '\\' && i+1 < len(line) && strings.IndexByte(escapedInDoubleQuotes, line[i+1]) >= 0 {
					i++
				}
				word.WriteByte(line[i])
			}
		case '\\':
			inWord = true
			if i++; i >= len(line) {
				return nil, errUnquoted
			}
			word.WriteByte(line[i])
		default:
			inWord = true
			word.WriteByte(b)
		}
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}

// escapedInDoubleQuotes are the bytes that a shell and systemd both take as themselves after a backslash between
// double quotes.
const escapedInDoubleQuotes = "\\\"$`"

// environmentQuote writes a value for an environment file. Double quotes with these escapes are read alike by systemd
// and by a shell.
func environmentQuote(value string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(value) {
		if strings.IndexByte(escapedInDoubleQuotes, value[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(value[i])
	}
	b.WriteByte('"')
	return b.String()
}

// environmentUnquote reads a value of an environment file, quoted or not, as a shell and systemd do. One that is no single
// word for a shell is read as systemd does.
func environmentUnquote(value string) string {
	if words, err := shellSplit(value); err == nil && len(words) <= 1 {
		return strings.Join(words, "")
	}
	if len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"' {
		value = value[1 : len(value)-1]
	}
	var b strings.Builder
	for i := 0; i < len(value); i++ {
		if value[i] == '\\' && i+1 < len(value) && strings.IndexByte(escapedInDoubleQuotes, value[i+1]) >= 0 {
			i++
		}
		b.WriteByte(value[i])
	}
	return b.String()
}

// systemdQuote writes words for ExecStart, where % and $ have meanings of their own.
func systemdQuote(words ...string) string {
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`, `%`, `%%`, `$`, `$$`)
	quoted := make([]string, len(words))
	for i, word := range words {
		if word == "" || strings.ContainsFunc(word, func(r rune) bool { return !plain(r, "_./:=,@+-") }) {
			word = `"` + escape.Replace(word) + `"`
		}
		quoted[i] = word
	}
	return strings.Join(quoted, " ")
}

// plain reports whether r is an ASCII letter, a digit or one of further.
func plain(r rune, further string) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune(further, r)
}
