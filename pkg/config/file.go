package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// setting is one value as it was written, and its source.
type setting struct {
	text string
	// source is a phrase for errors, "" for the command line.
	source string
}

// settings holds the merged content of all files: an option's name to its value, or to its list's elements.
// A name without elements means an empty list.
type settings map[string][]setting

// readFiles merges the main file and those in its .d directory, in lexical order; later files take
// precedence. The .d directory is read even if the main file is missing, which is an error only if it is
// required.
func readFiles(path string, required bool, options []*option) (settings, error) {
	merged := settings{}
	content, err := os.ReadFile(path)
	switch {
	case err == nil:
		err = merged.merge(path, content, options)
	case errors.Is(err, fs.ErrNotExist) && !required:
		err = nil
	default:
		err = unreadable(path, err)
	}
	if err != nil {
		return nil, err
	}

	dir := path + ".d"
	entries, err := os.ReadDir(dir) // sorted by name
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, unreadable(dir, err)
	}
	for _, e := range entries {
		// Files with a leading dot are skipped, as by a shell's *.yaml: editors keep their temporary files there.
		if !strings.HasSuffix(e.Name(), ".yaml") || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		path := filepath.Join(dir, e.Name())
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, unreadable(path, err)
		}
		if err := merged.merge(path, content, options); err != nil {
			return nil, err
		}
	}
	return merged, nil
}

func unreadable(path string, err error) error {
	// Drop the path error: it repeats the path and adds only the name of a system call.
	if pathErr := (*fs.PathError)(nil); errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	return fmt.Errorf("reading configuration file %s: %w; correct it, or give --config= to read none", path, err)
}

// merge adds one file, which takes precedence over earlier ones. Keys are read as nodes, not decoded into a
// map: nodes keep line numbers, duplicate keys, and numbers as they were written, such as the octal 0600.
func (s settings) merge(path string, content []byte, options []*option) error {
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	var document, second yaml.Node
	err := decoder.Decode(&document)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err == nil {
		if err = decoder.Decode(&second); err == nil {
			return fmt.Errorf("%s:%d: a second YAML document: a configuration file holds one", path, second.Line)
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("%s: not valid YAML: %s", path, strings.TrimPrefix(err.Error(), "yaml: "))
	}

	root := resolve(document.Content[0])
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return nil
	}
	if root.Kind != yaml.MappingNode {
		return fmt.Errorf("%s:%d: a configuration file is made of lines such as \"data-dir: /srv/reap\"", path, root.Line)
	}

	seen := map[string]int{} // an option's name to its line
	for i := 0; i < len(root.Content); i += 2 {
		key, value := resolve(root.Content[i]), resolve(root.Content[i+1])
		at := fmt.Sprintf("%s:%d", path, key.Line)

		name, appends := strings.CutSuffix(key.Value, "+")
		o, err := findOption(name, options)
		if err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		if line, twice := seen[o.name]; twice {
			return fmt.Errorf("%s: %q is given twice: it is on line %d already", at, o.name, line)
		}
		seen[o.name] = key.Line
		if appends && !o.list {
			return fmt.Errorf("%s: %q takes one value, so there is nothing to append to: write it without the +", at, o.name)
		}

		texts, err := scalars(value, o)
		if err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		if !appends {
			s[o.name] = []setting{}
		}
		for _, text := range texts {
			s[o.name] = append(s[o.name], setting{text: text, source: "from " + at})
		}
	}
	return nil
}

func findOption(name string, options []*option) (*option, error) {
	if name == configName {
		return nil, fmt.Errorf("%q cannot be given inside a configuration file: put more files into its .d directory", name)
	}
	var names []string
	for _, o := range options {
		for _, n := range o.names() {
			if n == name {
				return o, nil
			}
			names = append(names, n)
		}
	}
	return nil, fmt.Errorf("unknown option %q%s", name, didYouMean(name, names))
}

// scalars returns the raw text of a scalar, or of each element of a list.
func scalars(value *yaml.Node, o *option) ([]string, error) {
	switch {
	case value.Kind == yaml.ScalarNode && value.Tag == "!!null":
		return nil, fmt.Errorf("%q has no value%s", o.name, emptyList(o))
	case value.Kind == yaml.ScalarNode:
		return []string{value.Value}, nil
	case value.Kind != yaml.SequenceNode:
		return nil, fmt.Errorf("%q takes %s, not a map", o.name, takes(o))
	case !o.list:
		return nil, fmt.Errorf("%q takes one value, not a list", o.name)
	}
	texts := make([]string, 0, len(value.Content))
	for _, e := range value.Content {
		e = resolve(e)
		if e.Kind != yaml.ScalarNode || e.Tag == "!!null" {
			return nil, fmt.Errorf("%q takes a list of plain values; one of these is a list, a map or null", o.name)
		}
		texts = append(texts, e.Value)
	}
	return texts, nil
}

func takes(o *option) string {
	if o.list {
		return "a list"
	}
	return "one value"
}

func emptyList(o *option) string {
	if o.list {
		return ": write [] for an empty list"
	}
	return ""
}

// resolve follows YAML aliases to the node they refer to.
func resolve(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}
