package service

import (
	"os"
	"path/filepath"
	"strings"
)

// linkNames are other names of the binary: it is what it is called.
var linkNames = []string{"kubectl", "kubectl-reap", "kubectl_complete-reap"}

// link is the path of a link to the binary.
func (p place) link(name string) string { return filepath.Join(p.BinDir, name) }

// missingLinks returns the names for which there is no command where the binary will run, in a directory of this $PATH.
func (i *Installation) missingLinks() (missing []string) {
	for _, name := range linkNames {
		found := false
		for _, dir := range append(strings.Split(i.in.Path, ":"), i.BinDir) {
			found = found || exists(i.at(dir+"/"+name))
		}
		if !found {
			missing = append(missing, name)
		}
	}
	return missing
}

// putLinks makes links for those commands that are missing.
func (i *Installation) putLinks() (made bool) {
	for _, name := range i.missingLinks() {
		if err := os.Symlink("reap", i.at(i.link(name))); err != nil {
			i.say("could not link %s to %s: use \"reap kubectl\"", i.link(name), i.binary())
			continue
		}
		made = true
		i.say("linked %s to it", i.link(name))
	}
	return made
}

// removeLinks removes the links to the binary, and leaves what else has their names.
func (p place) removeLinks() error {
	for _, name := range linkNames {
		if target, err := os.Readlink(p.at(p.link(name))); err != nil || target != "reap" {
			continue
		}
		if err := p.remove(p.link(name)); err != nil {
			return err
		}
	}
	return nil
}
