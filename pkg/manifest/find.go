package manifest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/cli-runtime/pkg/resource"
)

// LeftOut is a file of a folder that is not read.
type LeftOut struct {
	Path string
	Why  string // such as "named pipe"
}

// found is what names stand for.
type found struct {
	sources []source
	leftOut []LeftOut
}

// find looks up names. A folder stands for the files in it that kubectl recognises by their extensions.
func find(stdin io.Reader, names []string, recursive bool) (f found, err error) {
	once := false
	for _, name := range names {
		switch {
		case name == "-" && once:
			return found{}, errors.New("standard input can be read only once: give - once")
		case name == "-":
			once = true
			f.sources = append(f.sources, source{path: "STDIN", name: "standard input", read: readAll(stdin)})
		case IsURL(name):
			s, err := urlSource(name)
			if err != nil {
				return found{}, err
			}
			f.sources = append(f.sources, s)
		default:
			paths, err := expand(name)
			if err != nil {
				return found{}, err
			}
			for _, path := range paths {
				if err := f.path(path, recursive); err != nil {
					return found{}, err
				}
			}
		}
	}
	if len(f.sources) > 0 {
		return f, nil
	}
	none := fmt.Sprintf("there is no %s file in %s", strings.Join(resource.FileExtensions, ", "), strings.Join(names, ", "))
	if len(f.leftOut) > 0 {
		none += fmt.Sprintf(" that can be read: %s is left out (%s)", f.leftOut[0].Path, f.leftOut[0].Why)
	}
	return found{}, errors.New(none)
}

// IsURL reports whether a name is fetched and not opened.
func IsURL(name string) bool {
	return strings.HasPrefix(name, "http://") || strings.HasPrefix(name, "https://")
}

func urlSource(name string) (source, error) {
	u, err := url.Parse(name)
	if err != nil {
		var parsing *url.Error
		if errors.As(err, &parsing) {
			err = parsing.Err // without the URL, which may hold a password
		}
		return source{}, fmt.Errorf("a URL given with --filename cannot be parsed: %w", err)
	}
	return source{path: u.Redacted(), name: u.Redacted(), read: fetch(u)}, nil
}

// expand replaces a pattern by the files that it matches, as kubectl does. A name that exists is no pattern.
func expand(name string) ([]string, error) {
	if _, missing := os.Stat(name); missing == nil || !strings.ContainsAny(name, "*?[") {
		return []string{name}, nil
	}
	matches, err := filepath.Glob(name)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%q: %w", name, err)
	case len(matches) == 0:
		return nil, fmt.Errorf("no file matches %q", name)
	}
	return matches, nil
}

// path adds a file, or those in a folder.
func (f *found) path(name string, recursive bool) error {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return f.folder(name, recursive)
	}
	f.sources = append(f.sources, source{path: name, name: name, read: readNamed(name)})
	return nil
}

// folder adds the files in a folder. It does not follow links out of the folder, and takes only regular files: a folder may come
// from another person, or have been unpacked from an archive.
func (f *found) folder(name string, recursive bool) error {
	root, err := filepath.Abs(name)
	if err != nil {
		return err
	}
	if root, err = filepath.EvalSymlinks(root); err != nil {
		return err
	}
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if path != root && !recursive {
				return filepath.SkipDir
			}
			return nil
		}
		if !slices.Contains(resource.FileExtensions, filepath.Ext(path)) {
			return nil
		}
		below, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		shown := filepath.Join(name, below)
		if d.Type()&fs.ModeSymlink != 0 {
			var why string
			if below, why = linked(root, path); why != "" {
				f.leftOut = append(f.leftOut, LeftOut{shown, why})
				return nil
			}
		} else if !d.Type().IsRegular() {
			f.leftOut = append(f.leftOut, LeftOut{shown, kindOf(d.Type())})
			return nil
		}
		f.sources = append(f.sources, source{path: shown, name: shown, read: readBelow(root, below, shown)})
		return nil
	})
}

// linked returns the place below root of the regular file that a link leads to, or why it is left out.
func linked(root, link string) (below, why string) {
	target, err := filepath.EvalSymlinks(link)
	if err != nil {
		return "", "broken link"
	}
	below, err = filepath.Rel(root, target)
	if err != nil || !filepath.IsLocal(below) {
		return "", "link that leaves the folder"
	}
	info, err := os.Lstat(target)
	switch {
	case err != nil:
		return "", "broken link"
	case !info.Mode().IsRegular():
		return "", "link to a " + kindOf(info.Mode())
	}
	return below, ""
}

// kindOf names the kind of a file that is not regular.
func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "folder"
	case mode&fs.ModeNamedPipe != 0:
		return "named pipe"
	case mode&fs.ModeSocket != 0:
		return "socket"
	case mode&fs.ModeDevice != 0:
		return "device"
	}
	return "special file"
}
