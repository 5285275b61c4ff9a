package service

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// state is the files of a service that works, and its data directory; nil files if there is none.
type state struct {
	files   []file
	dataDir string
}

// remember keeps the files of the service as they are, if they make one that works and that others are about to replace.
func (i *Installation) remember(ctx context.Context) error {
	if i.running == "" || !i.works(ctx) {
		return nil
	}
	paths := make([]string, 0, len(i.files)+1)
	for _, f := range i.files {
		paths = append(paths, f.path)
	}
	if i.oldBinDir != "" && i.oldBinDir != i.BinDir {
		paths = append(paths, i.uninstallScript(i.oldBinDir))
	}
	before := state{dataDir: i.running}
	for _, path := range paths {
		f, err := i.asItIs(path)
		if err != nil {
			return fmt.Errorf("reading what is there already: %w; nothing was changed", err)
		}
		before.files = append(before.files, f)
	}
	i.before = before
	return nil
}

// works reports whether the service that runs is ready. systemd is told by the server; OpenRC knows of a process alone.
func (i *Installation) works(ctx context.Context) bool {
	if i.init.kind == Systemd {
		return i.active(ctx, Systemd)
	}
	pid, err := i.server(i.running)
	return err == nil && pid > 0
}

// asItIs returns a file that is there now, or that it is not.
func (p place) asItIs(path string) (file, error) {
	raw, err := os.ReadFile(p.at(path))
	if errors.Is(err, fs.ErrNotExist) {
		return file{path: path, gone: true}, nil
	}
	if err != nil {
		return file{}, err
	}
	info, err := os.Stat(p.at(path))
	if err != nil {
		return file{}, err
	}
	return file{path: path, content: string(raw), mode: info.Mode().Perm()}, nil
}

// startOrGoBack starts or restarts the service. If its server does not become ready, a service that worked before is put back with the
// arguments and the environment that it had, and started.
func (i *Installation) startOrGoBack(ctx context.Context, action string) error {
	failed := i.bring(ctx, action, i.dataDir)
	if failed == nil || ctx.Err() != nil || !i.differently() {
		return failed
	}
	i.say("%s does not become ready: going back to the arguments and the environment before", i.service)
	if err := i.goBack(ctx); err != nil {
		return fmt.Errorf("%w; going back to what it was failed too: %w", failed, err)
	}
	if err := i.remove(i.mark); err != nil {
		return err
	}
	return fmt.Errorf("%w; %s runs again with the arguments and the environment before", failed, i.service)
}

// differently reports whether the service that worked was started otherwise: with another definition or environment. Another binary
// alone is not gone back to: install.sh has replaced it.
func (i *Installation) differently() bool {
	for n, f := range i.before.files {
		if n < len(i.files) && !i.files[n].quiet && (f.gone != i.files[n].gone || withoutBinary(f.content) != withoutBinary(i.files[n].content)) {
			return true
		}
	}
	return false
}

// withoutBinary returns a definition without the line that names the binary's checksum.
func withoutBinary(definition string) string {
	var rest strings.Builder
	for line := range strings.Lines(definition) {
		if !strings.HasPrefix(line, "# binary: ") {
			rest.WriteString(line)
		}
	}
	return rest.String()
}

func (i *Installation) goBack(ctx context.Context) error {
	for _, f := range i.before.files {
		var err error
		if f.gone {
			err = i.remove(f.path)
		} else {
			err = i.write(f)
		}
		if err != nil {
			return err
		}
	}
	if i.init.kind == Systemd {
		if err := i.run(ctx, errReload, "systemctl", "daemon-reload"); err != nil {
			return err
		}
		if i.oldUnit != "" && !i.ask(ctx, "systemctl", "reenable", i.service+".service") {
			return fmt.Errorf("systemctl could not enable %s.service", i.service)
		}
	}
	return i.bring(ctx, "restart", i.before.dataDir)
}
