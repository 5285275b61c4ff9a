// Package manifest reads Kubernetes manifests as kubectl does, and changes the UIDs of ownerReferences in the text of files, so that
// comments and the order of fields stay.
package manifest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Set is what the names given with --filename stand for.
type Set struct {
	Files []*File
	// LeftOut are the files of folders that kubectl would open and Load does not.
	LeftOut []LeftOut
}

// File is a file of manifests, a URL or standard input. It is for one goroutine at a time.
type File struct {
	Path    string // STDIN for standard input
	Objects []Object
	text    []byte // as UTF-8 without a byte order mark
	// encoded is true if the text is not what the file has, byte by byte: mark is then its byte order mark, or the file is in
	// another encoding and mark is nil.
	encoded bool
	mark    []byte
	edits   map[int]edit // that Write makes, by their place in the text
	parsed  map[piece]*nodes
}

// Object is one object in a file. Those of lists are objects of their own.
type Object struct {
	*unstructured.Unstructured
	File *File
	in   piece // of the file's text: the document
	// of is how many objects the document has, of which this is the one at index.
	index, of int
	changes   changes
}

// problemsShown is how many unreadable files an error names.
const problemsShown = 5

// Load reads what names given with --filename stand for: files, folders, patterns, URLs and - for standard input. It reads what
// kubectl reads, from regular files, up to MaxSize each. Cancelling ctx aborts it, also while a slow reader is waited for. No error
// quotes a manifest: it may be a Secret.
func Load(ctx context.Context, names []string, recursive bool) (Set, error) {
	type outcome struct {
		set Set
		err error
	}
	loaded, stdin := make(chan outcome, 1), os.Stdin
	// A read of a terminal, a pipe or a dead file server cannot be cancelled. The process ends soon after Load returns.
	go func() {
		set, err := load(ctx, stdin, names, recursive)
		loaded <- outcome{set, err}
	}()
	select {
	case o := <-loaded:
		if o.err != nil {
			return Set{}, fmt.Errorf("reading manifests: %w", o.err)
		}
		return o.set, nil
	case <-ctx.Done():
		return Set{}, fmt.Errorf("reading manifests: %w", context.Cause(ctx))
	}
}

func load(ctx context.Context, stdin io.Reader, names []string, recursive bool) (Set, error) {
	found, err := find(stdin, names, recursive)
	if err != nil {
		return Set{}, err
	}
	set := Set{LeftOut: found.leftOut}
	var problems []string
	objects := 0
	for _, s := range found.sources {
		f, err := read(ctx, s)
		if ctx.Err() != nil {
			return Set{}, context.Cause(ctx)
		}
		if err != nil {
			problems = append(problems, err.Error())
			continue
		}
		objects += len(f.Objects)
		set.Files = append(set.Files, f)
	}
	if len(problems) > problemsShown {
		more := fmt.Sprintf("and %d more files cannot be read", len(problems)-problemsShown)
		problems = append(problems[:problemsShown], more)
	}
	switch {
	case len(problems) > 0:
		return Set{}, errors.New(strings.Join(problems, "; "))
	case objects == 0:
		return Set{}, fmt.Errorf("there is no object in %s", strings.Join(names, ", "))
	}
	return set, nil
}

// read reads one source.
func read(ctx context.Context, s source) (*File, error) {
	raw, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	f := &File{Path: s.path, edits: map[int]edit{}, parsed: map[piece]*nodes{}}
	if f.text, f.mark, f.encoded, err = toUTF8(raw); err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	if f.Objects, err = f.decode(ctx); err != nil {
		return nil, fmt.Errorf("%s%w", s.name, err)
	}
	return f, nil
}
