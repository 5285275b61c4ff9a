package manifest

import (
	"bytes"
	"errors"

	"go.yaml.in/yaml/v3"
)

// maxExpansion is how many bytes the aliases of a document may add to it. YAML's own limit counts values and not their size: one
// megabyte that is named ten thousand times would fill the memory.
const maxExpansion = 16 << 20

var errExpansion = errors.New("its aliases (*) stand for more than 16 MiB of text; write the values out")

// checkAliases returns an error about a YAML document whose aliases stand for too much.
func checkAliases(document []byte) error {
	aliases := bytes.Count(document, []byte("*"))
	if aliases < 2 || !bytes.Contains(document, []byte("&")) {
		return nil // as of nearly all manifests; a single one at most doubles a document
	}
	var root yaml.Node
	if err := yaml.Unmarshal(document, &root); err != nil {
		if aliases*len(document) > maxExpansion {
			return errExpansion
		}
		return nil // the decoder finds a better error
	}
	written := size(&root, map[*yaml.Node]int{}, false)
	if size(&root, map[*yaml.Node]int{}, true)-written > maxExpansion {
		return errExpansion
	}
	return nil
}

// size returns about how long what a node says is, with or without what its aliases stand for.
func size(n *yaml.Node, known map[*yaml.Node]int, aliases bool) int {
	const (
		punctuation = 4
		enough      = 1 << 29 // the sum of two does not overflow 32 bits
	)
	if n.Kind == yaml.AliasNode {
		if !aliases {
			return punctuation
		}
		n = n.Alias
	}
	if s, is := known[n]; is {
		return s
	}
	known[n] = 0 // within itself: the decoder refuses that
	s := len(n.Value) + punctuation
	for _, below := range n.Content {
		s = min(s+size(below, known, aliases), enough)
	}
	known[n] = s
	return s
}
