package manifest

import (
	"bytes"
	"regexp"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// nodes is a document with the places of what it says.
type nodes struct {
	text    []byte
	base    int   // of the document in the file
	lines   []int // where each begins in the text
	objects []*yaml.Node
	// aliased are the nodes that an alias says once more: a change of their text would be one of something else too.
	aliased map[*yaml.Node]bool
}

// nodesOf parses a document, once; nil if YAML cannot.
func (f *File) nodesOf(in piece) *nodes {
	n, is := f.parsed[in]
	if !is {
		n = parse(f.text[in.from:in.to], in.from)
		f.parsed[in] = n
	}
	return n
}

// surrogates are halves of a character as JSON escapes them, which YAML does not know.
var surrogates = regexp.MustCompile(`\\u[dD][89a-fA-F][0-9a-fA-F]{2}`)

func parse(text []byte, base int) *nodes {
	var document yaml.Node
	// The places of all else stay.
	if err := yaml.Unmarshal(surrogates.ReplaceAll(text, []byte(`\u0020`)), &document); err != nil || len(document.Content) != 1 {
		return nil
	}
	n := &nodes{text: text, base: base, lines: []int{0}, aliased: map[*yaml.Node]bool{}}
	for i, c := range text {
		if c == '\n' {
			n.lines = append(n.lines, i+1)
		}
	}
	n.noteAliased(&document)
	root := document.Content[0]
	n.objects = []*yaml.Node{root}
	if items := field(root, "items"); items != nil && items.Kind == yaml.SequenceNode {
		n.objects = items.Content
	}
	return n
}

// noteAliased notes what the aliases below a node stand for.
func (n *nodes) noteAliased(of *yaml.Node) {
	if of.Kind == yaml.AliasNode {
		n.markAliased(of.Alias)
	}
	for _, below := range of.Content {
		n.noteAliased(below)
	}
}

// markAliased notes a node and all below it.
func (n *nodes) markAliased(of *yaml.Node) {
	if n.aliased[of] {
		return
	}
	n.aliased[of] = true
	for _, below := range of.Content {
		n.markAliased(below)
	}
}

// field returns the value of a mapping's field, or nil. Of two with the same name the later one counts.
func field(n *yaml.Node, name string) (value *yaml.Node) {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			value = n.Content[i+1]
		}
	}
	return value
}

// find returns where in the file a scalar's value is written as it is.
func (n *nodes) find(scalar *yaml.Node, value string) (in piece, found bool) {
	if scalar == nil || scalar.Kind != yaml.ScalarNode || n.aliased[scalar] || scalar.Value != value || value == "" {
		return piece{}, false
	}
	from, ok := n.offset(scalar.Line, scalar.Column)
	if !ok {
		return piece{}, false
	}
	if scalar.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 {
		from++
	}
	if from > len(n.text) || !bytes.HasPrefix(n.text[from:], []byte(value)) {
		return piece{}, false // it is written with escapes
	}
	return piece{n.base + from, n.base + from + len(value)}, true
}

// offset returns where a character is, whose line and column are counted from 1.
func (n *nodes) offset(line, column int) (at int, ok bool) {
	if line < 1 || line > len(n.lines) {
		return 0, false
	}
	at = n.lines[line-1]
	for range column - 1 {
		_, size := utf8.DecodeRune(n.text[at:])
		if size == 0 {
			return 0, false
		}
		at += size
	}
	return at, true
}
