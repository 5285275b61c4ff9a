package manifest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"syscall"
	"unicode/utf8"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// MaxSize is how many bytes of manifests are read from one file, URL or standard input.
const MaxSize = 256 << 20

// source is something that manifests are read from.
type source struct {
	path string // for reports
	name string // for errors
	read func(context.Context) ([]byte, error)
}

// opened is how files are opened: opening a named pipe without a writer returns at once. A path that was a regular file a
// moment ago may be a named pipe now.
const opened = os.O_RDONLY | syscall.O_NONBLOCK

// readNamed reads a file that the user has named, which may be a link.
func readNamed(path string) func(context.Context) ([]byte, error) {
	return func(context.Context) ([]byte, error) {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		// Opening a device can do something, such as rewind a tape.
		if err := checkRegular(info, path); err != nil {
			return nil, err
		}
		return open(path)
	}
}

// open opens and reads a regular file.
func open(path string) ([]byte, error) {
	f, err := os.OpenFile(path, opened, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readRegular(f, path)
}

// readBelow reads a file in a folder; name is for errors. Where a link has taken the file's place meanwhile, it is not followed out
// of the folder.
func readBelow(root, below, name string) func(context.Context) ([]byte, error) {
	return func(context.Context) ([]byte, error) {
		folder, err := os.OpenRoot(root)
		if err != nil {
			return nil, err
		}
		defer folder.Close()
		f, err := folder.OpenFile(below, opened, 0)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		defer f.Close()
		return readRegular(f, name)
	}
}

// readRegular reads an open file. The descriptor is asked for its kind: the path may lead elsewhere by now.
func readRegular(f *os.File, name string) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := checkRegular(info, name); err != nil {
		return nil, err
	}
	if info.Size() > MaxSize {
		return nil, tooLarge(name, MaxSize)
	}
	return readUpTo(f, name, MaxSize)
}

func checkRegular(info os.FileInfo, name string) error {
	if info.Mode().IsRegular() {
		return nil
	}
	return fmt.Errorf("%s is not a regular file but a %s; - reads standard input", name, kindOf(info.Mode()))
}

func readAll(stdin io.Reader) func(context.Context) ([]byte, error) {
	return func(context.Context) ([]byte, error) { return readUpTo(stdin, "standard input", MaxSize) }
}

// fetch reads a URL.
func fetch(u *url.URL) func(context.Context) ([]byte, error) {
	return func(ctx context.Context) ([]byte, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
		if err != nil {
			return nil, fmt.Errorf("%s is no URL that can be fetched", u.Redacted())
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return nil, err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("fetching %s: the server answered %s", u.Redacted(), response.Status)
		}
		return readUpTo(response.Body, u.Redacted(), MaxSize)
	}
}

// readUpTo reads everything, or returns an error about more than limit bytes.
func readUpTo(r io.Reader, name string, limit int64) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		var path *os.PathError
		if errors.As(err, &path) {
			err = path.Err // its path is the descriptor's, and may not be the one that the user knows
		}
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if int64(len(raw)) > limit {
		return nil, tooLarge(name, limit)
	}
	return raw, nil
}

func tooLarge(name string, limit int64) error {
	return fmt.Errorf("%s has more than %d MiB, the most that is read at once; split it", name, limit>>20)
}

// toUTF8 decodes text as kubectl does, by its byte order mark. encoded reports that the result differs from raw; if by a byte
// order mark alone, that is returned.
func toUTF8(raw []byte) (text, mark []byte, encoded bool, err error) {
	byteOrderMark := []byte("\ufeff")
	utf16 := bytes.HasPrefix(raw, []byte("\xff\xfe")) || bytes.HasPrefix(raw, []byte("\xfe\xff"))
	if !utf16 && utf8.Valid(raw) {
		if rest, marked := bytes.CutPrefix(raw, byteOrderMark); marked {
			return rest, byteOrderMark, true, nil
		}
		return raw, nil, false, nil
	}
	text, _, err = transform.Bytes(unicode.BOMOverride(unicode.UTF8.NewDecoder()), raw)
	return text, nil, true, err
}
