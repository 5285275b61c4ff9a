package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/reap-dev/reap/pkg/process"
)

// readyFile is what a server says of itself while it is ready. One that was killed leaves it.
type readyFile struct {
	process.Identity
	// Settings holds a digest of each setting; empty in the file of an older server.
	Settings map[string]string `json:"settings"`
}

// readReady returns what the server that is ready on a data directory says; nil if there is none. The error is that the caller may
// not look.
func (p place) readReady(dataDir string) (*readyFile, error) {
	raw, err := os.ReadFile(p.at(dataDir) + "/ready.json")
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("looking whether a server is ready: %w", err)
	}
	if err != nil {
		return nil, nil
	}
	var ready readyFile
	if json.Unmarshal(raw, &ready) != nil || !ready.Runs() {
		return nil, nil
	}
	return &ready, nil
}

// server returns the process of the server that is ready on a data directory; 0 if there is none.
func (p place) server(dataDir string) (pid int, err error) {
	ready, err := p.readReady(dataDir)
	if ready == nil {
		return 0, err
	}
	return ready.PID, nil
}

// askingEvery is the time between two looks at the ready file.
const askingEvery = 200 * time.Millisecond

var errEnded = errors.New("it ended")

// awaitReady returns when a server is ready on the data directory, or when the one that OpenRC's supervisor has started has ended: the
// supervisor starts it again for ever.
func (p place) awaitReady(ctx context.Context, dataDir string) error {
	tick := time.NewTicker(askingEvery)
	defer tick.Stop()
	first := 0
	for {
		if pid, err := p.server(dataDir); err != nil || pid > 0 {
			return err
		}
		pid, known := p.supervised()
		if known && first > 0 && pid != first {
			return errEnded
		}
		first = pid
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// supervised returns the process that OpenRC's supervisor runs, 0 if it runs none at the moment. known is false if that cannot be told.
func (p place) supervised() (pid int, known bool) {
	raw, err := os.ReadFile(p.at("/run/" + p.service + ".pid"))
	if err != nil {
		return 0, false
	}
	supervisor, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		return 0, false
	}
	raw, err = os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", supervisor, supervisor))
	if err != nil {
		return 0, false // a kernel without this file, or no supervisor
	}
	child, _, _ := strings.Cut(string(raw), " ")
	pid, _ = strconv.Atoi(child) // none is no number
	return pid, true
}
