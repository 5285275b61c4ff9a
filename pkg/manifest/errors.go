package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// The decoders quote documents in many of their errors, and a document may be a Secret. So no text of theirs is passed on, unless
// it is known to be constant.

// harmless are the texts of YAML's scanner and parser that are passed on; none of them quotes the document.
var harmless = func() map[string]bool {
	known := map[string]bool{}
	for _, text := range []string{
		"block sequence entries are not allowed in this context",
		"control characters are not allowed",
		"could not find expected ':'",
		"did not find expected ',' or ']'",
		"did not find expected ',' or '}'",
		"did not find expected '-' indicator",
		"did not find expected <document start>",
		"did not find expected alphabetic or numeric character",
		"did not find expected comment or line break",
		"did not find expected hexdecimal number",
		"did not find expected key",
		"did not find expected node content",
		"did not find expected whitespace or line break",
		"document contains excessive aliasing",
		"found a tab character that violates indentation",
		"found a tab character where an indentation space is expected",
		"found character that cannot start any token",
		"found invalid Unicode character escape code",
		"found undefined tag handle",
		"found unexpected document indicator",
		"found unexpected end of stream",
		"found unknown escape character",
		"map merge requires map or sequence of maps as the value",
		"mapping keys are not allowed in this context",
		"mapping values are not allowed in this context",
	} {
		known[text] = true
	}
	return known
}()

// quoting are the beginnings of YAML errors that quote the document, and what is said in place of each.
var quoting = []struct {
	begins *regexp.Regexp
	say    string
}{
	{regexp.MustCompile(`^unknown anchor '`), "an alias (*) has no anchor (&); put the value in quotes if it is not meant as one"},
	{regexp.MustCompile(`^anchor '`), "an anchor (&) contains itself"},
	{regexp.MustCompile(`^(invalid map key|unsupported map key)`), "a key is not a scalar"},
	{regexp.MustCompile(`^invalid Yaml document separator`), "there is text after ---, which separates documents"},
}

// yamlError is the form of a YAML error, with the line in its document.
var yamlError = regexp.MustCompile(`(?s)^(?:error converting YAML to JSON: )?(?:yaml: )?(?:line (\d+): )?(.*)$`)

// syntaxError returns the error of a document that is neither JSON nor YAML, beginning with its place in the file.
func (f *File) syntaxError(err error, in piece, number int) error {
	at := line(f.text, f.begin(in))
	var syntax utilyaml.JSONSyntaxError
	var plain *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf(", document %d (line %d): it is not valid JSON near line %d", number, at, line(f.text, int(syntax.Offset)))
	case errors.As(err, &plain):
		return fmt.Errorf(", document %d (line %d): it is not valid JSON near line %d", number, at, line(f.text, int(plain.Offset)))
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf(", document %d (line %d): the JSON ends before the document does", number, at)
	}
	parts := yamlError.FindStringSubmatch(err.Error())
	say, near := "it is not valid YAML", ""
	if harmless[parts[2]] {
		say = "it is not valid YAML: " + parts[2]
	}
	for _, q := range quoting {
		if q.begins.MatchString(parts[2]) {
			say = q.say
		}
	}
	if n, err := strconv.Atoi(parts[1]); err == nil {
		near = fmt.Sprintf(" near line %d", line(f.text, in.from)+n-1)
	}
	return fmt.Errorf(", document %d (line %d): %s%s", number, at, say, near)
}

// decodingError returns what is wrong with a document that is JSON and no object.
func decodingError(err error) error {
	if runtime.IsMissingKind(err) {
		return errors.New("it has no kind, or one that is not a string")
	}
	return errors.New("it cannot be decoded: a number is out of range, or items is not a list of objects")
}

// metadataError returns what is wrong with an object's metadata.
func metadataError(err error) error {
	var mismatch *json.UnmarshalTypeError
	if errors.As(err, &mismatch) && mismatch.Field != "" {
		return fmt.Errorf("%s has a value of the wrong type; numbers and true need quotes where a string is meant", mismatch.Field)
	}
	return errors.New("its metadata, apiVersion or kind has a value of the wrong type, or a time that is none")
}
