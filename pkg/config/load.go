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

// loader resolves the layers of one command's options. It must not be reused.
type loader struct {
	options []*option
	// config is the option that names the main file. Only the command line and the environment can set it.
	config     *option
	configFile string
	// environment is the server's or command's own.
	environment environment
	// root is put before the files' paths. Below one, what is being made may not have its files yet: none is required.
	root string
}

func newLoader(options []*option) *loader {
	l := &loader{
		options:     options,
		configFile:  defaultConfigFile,
		environment: newEnvironment(os.Environ()),
	}
	l.config = stringOption(&l.configFile, parsePath, option{
		name: configName, category: categoryGeneral, placeholder: "FILE",
		usage: "YAML file whose keys are the names of these flags; FILE.d/*.yaml are read after it, and \"key+\" " +
			"appends to a list; an empty value reads none",
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

// load sets every option that some layer gives, from the highest such layer. After an error the options'
// values are undefined.
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

// files reads the main configuration file, which the command line or the environment may name, and its .d
// directory.
func (l *loader) files() (settings, error) {
	given, named := l.given(l.config, nil)
	if err := apply(l.config, given); err != nil {
		return nil, err
	}
	if l.configFile == "" {
		return nil, nil
	}
	return readFiles(l.root+l.configFile, named && l.root == "", l.options)
}

// given returns the option's values from the highest layer that gives it.
//
// An empty environment variable counts as not set, because container templates set unused variables to "".
func (l *loader) given(o *option, files settings) ([]setting, bool) {
	if o.flag.given {
		var given []setting
		for _, text := range o.flag.values {
			given = append(given, setting{text: text})
		}
		return given, true
	}
	if text := l.environment[o.env()]; text != "" {
		source := "from $" + o.env()
		if !o.list || o.commas {
			return []setting{{text: text, source: source}}, true
		}
		// A variable cannot be repeated, and these values may contain commas: each line is an element.
		var given []setting
		for line := range strings.Lines(text) {
			given = append(given, setting{text: strings.TrimSpace(line), source: source})
		}
		return given, true
	}
	given, found := files[o.name]
	return given, found
}

// apply sets an option. Its errors name the flag even if the value came from another layer: users can look
// up the flag.
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
