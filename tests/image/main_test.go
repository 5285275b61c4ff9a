//go:build releasetest && linux

// Package image builds the image of the Dockerfile with a builder that needs no daemon, and runs it: its
// root file system, user, environment and command, in namespaces of its own, as a container runtime would.
// No registry is asked for anything.
//
// What it does not do: build on the golang image, for which this machine's own Debian and Go stand in, and
// run under Docker, whose networks and healthcheck timer are not tested.
package image

import (
	"fmt"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(asContainer); text != "" {
		fmt.Fprintln(os.Stderr, "entering the container:", enter(text)) // it returns only with an error
		os.Exit(125)                                                    // as docker run does
	}
	os.Exit(m.Run())
}
