package config

import (
	"fmt"
	"os"
	"strings"

	"github.com/urfave/cli/v2"
)

const (
	configName        = "config"
	defaultConfigFile = "/etc/reap/config.yaml"
)

// loader resolves the layers of one command's options. It is used once.
type loader struct {
	options []*option
	// config names the file; it is an option in the two layers above the file.
	config     *option
	configFile string
	lookupEnv  func(string) (string, bool)
}

func newLoader(options []*option) *loader {
	l := &loader{
		options:    options,
		configFile: defaultConfigFile,
		lookupEnv:  os.LookupEnv,
	}
	l.config = stringOption(&l.configFile, parsePath, option{
		name: configName, category: categoryGeneral, placeholder: "FILE",
		usage: "YAML file whose keys are the names of these flags; FILE.d/*.yaml are read after it, and \"key+\" " +
			"appends to a list; empty reads none",
	})
	return l
}

func (l *loader) flags() []cli.Flag {
	flags := []cli.Flag{l.config.cliFlag()}
	for _, o := range l.options {
		flags = append(flags, o.cliFlag())
	}
	return flags
}

// load sets every option that some layer gives, from the highest that does. After an error the options
// are in no particular state.
func (l *loader) load() error {
	files, err := l.files()
	if err != nil {
		return err
	}
	for _, o := range l.options {
		if given, found := l.given(o, files); found {
			if err := apply(o, given); err != nil {
				return err
			}
		}
	}
	return nil
}

// files reads the configuration file, and those beside it, that the two layers above name.
func (l *loader) files() (settings, error) {
	given, named := l.given(l.config, nil)
	if err := apply(l.config, given); err != nil {
		return nil, err
	}
	if l.configFile == "" {
		return nil, nil
	}
	return readFiles(l.configFile, named, l.options)
}

// given returns what the highest layer that gives the option says.
//
// An environment variable that is empty counts as not set: a container's template sets one to "" where
// it has nothing to say. Variables that name no option are not errors, unlike a file's keys: Kubernetes
// itself sets REAP_PORT and its like in every pod beside a Service called reap.
func (l *loader) given(o *option, files settings) ([]setting, bool) {
	if o.flag.given {
		var given []setting
		for _, text := range o.flag.values {
			given = append(given, setting{text: text})
		}
		return given, true
	}
	if text, _ := l.lookupEnv(o.env()); text != "" {
		source := "from $" + o.env()
		if !o.list || o.commas {
			return []setting{{text: text, source: source}}, true
		}
		// A variable cannot be repeated, and these values have commas in them: one to a line.
		var given []setting
		for line := range strings.Lines(text) {
			given = append(given, setting{text: strings.TrimSpace(line), source: source})
		}
		return given, true
	}
	given, found := files[o.name]
	return given, found
}

// apply sets an option. Its errors name the flag even when the value came from elsewhere: that is the
// name to look up.
func apply(o *option, given []setting) error {
	if o.list {
		o.reset()
	}
	for _, g := range given {
		texts := []string{g.text}
		if o.list {
			texts = o.elements(g.text)
		}
		for _, text := range texts {
			if err := o.set(text); err != nil {
				if g.source != "" {
					return fmt.Errorf("--%s (%s): %w", o.name, g.source, err)
				}
				return fmt.Errorf("--%s: %w", o.name, err)
			}
		}
	}
	return nil
}
