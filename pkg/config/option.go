package config

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
)

// option is one setting of a command, bound to the field it sets. One option is a flag, an environment
// variable and a key of the YAML file at once.
type option struct {
	name string
	// alias is a second flag name and YAML key, "" for none. A list has none: urfave copies a value
	// from one name to the other, which would double its elements.
	alias string
	// category, placeholder, usage and shown are for the help; shown is the default as it is written there.
	category, placeholder, usage, shown string
	// list options are given any number of times.
	list bool
	// commas separate the elements of a list too.
	commas bool
	// reset empties a list; nil for what is not one.
	reset func()
	// set takes one value, or one more element of a list. Its error says what is wrong with the value
	// and what is accepted; the caller adds the option's name and where the value came from.
	set func(text string) error

	// flag is what the command line gave.
	flag flagValue
	// boolean options may be given on the command line without a value, for true.
	boolean bool
}

// flagValue collects a flag's raw values in urfave's parser, so that all layers are parsed by the same
// code and the layer that a value came from is known.
type flagValue struct {
	list   bool
	bare   bool
	given  bool
	values []string
	// env is the environment variable that the same option is given by.
	env string
}

// Environment returns the environment variable that gives the same option as a flag, "" for a flag that is no option.
// The key in a configuration file is the flag's name.
func Environment(f cli.Flag) string {
	if g, ok := f.(*cli.GenericFlag); ok {
		if v, ok := g.Value.(*flagValue); ok {
			return v.env
		}
	}
	return ""
}

// Set implements flag.Value. The last one of a single value wins.
func (v *flagValue) Set(text string) error {
	v.given = true
	if !v.list {
		v.values = nil
	}
	v.values = append(v.values, text)
	return nil
}

// IsBoolFlag makes the standard library's parser accept the flag without a value.
func (v *flagValue) IsBoolFlag() bool { return v.bare }

// String implements flag.Value.
func (v *flagValue) String() string {
	return strings.Join(v.values, ",")
}

// env is the name of the option's environment variable.
func (o *option) env() string {
	return "REAP_" + strings.ToUpper(strings.ReplaceAll(o.name, "-", "_"))
}

// names are all the names that the option has on the command line and in a file.
func (o *option) names() []string {
	if o.alias == "" {
		return []string{o.name}
	}
	return []string{o.name, o.alias}
}

// cliFlag is the option as a flag. It does not name its environment variable to urfave, which would
// then read it by itself and hide which of the two gave the value.
func (o *option) cliFlag() cli.Flag {
	o.flag.list = o.list
	o.flag.bare = o.boolean
	o.flag.env = o.env()
	f := &cli.GenericFlag{
		Name:        o.name,
		Category:    o.category,
		Usage:       "`" + o.placeholder + "` " + o.usage,
		DefaultText: o.shown,
		Value:       &o.flag,
	}
	if o.alias != "" {
		f.Aliases = []string{o.alias}
	}
	return f
}

// elements splits a text into a list's elements. An empty text has none, which is how a list is emptied.
func (o *option) elements(text string) []string {
	if !o.commas {
		if text == "" {
			return nil
		}
		return []string{text}
	}
	var elements []string
	for e := range strings.SplitSeq(text, ",") {
		if e = strings.TrimSpace(e); e != "" {
			elements = append(elements, e)
		}
	}
	return elements
}

// asIs accepts a string by check alone.
func asIs(check func(string) error) func(string) (string, error) {
	return func(text string) (string, error) { return text, check(text) }
}

func stringOption(target *string, parse func(string) (string, error), o option) *option {
	o.shown = *target
	o.set = func(text string) (err error) {
		*target, err = parse(text)
		return err
	}
	return &o
}

func listOption(target *[]string, parse func(string) (string, error), o option) *option {
	o.list = true
	o.reset = func() { *target = nil }
	o.set = func(text string) error {
		element, err := parse(text)
		*target = append(*target, element)
		return err
	}
	return &o
}

// intOption says accept of a text that is no number; check says it of one that is.
func intOption(target *int, check func(int) error, accept string, o option) *option {
	o.shown = strconv.Itoa(*target)
	o.set = func(text string) error {
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("%q is not a whole number: %s", text, accept)
		}
		*target = n
		return check(n)
	}
	return &o
}

// durationOption reads a duration such as 90s or 1h; 0 stands for never or for ever, as the usage says.
func durationOption(target *time.Duration, check func(time.Duration) error, accept string, o option) *option {
	o.shown = target.String()
	o.set = func(text string) error {
		d, err := time.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("%q is not a duration: %s", text, accept)
		}
		*target = d
		return check(d)
	}
	return &o
}

func boolOption(target *bool, o option) *option {
	o.boolean = true
	o.shown = strconv.FormatBool(*target)
	o.set = func(text string) error {
		b, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%q is neither true nor false", text)
		}
		*target = b
		return nil
	}
	return &o
}

// modeOption reads octal, with or without a leading 0 or 0o.
func modeOption(target *os.FileMode, o option) *option {
	o.shown = fmt.Sprintf("%04o", *target)
	o.set = func(text string) error {
		n, err := strconv.ParseUint(strings.TrimPrefix(text, "0o"), 8, 32)
		if err != nil {
			return fmt.Errorf("%q is not a file mode: give it in octal, such as 0600 or 0640", text)
		}
		*target = os.FileMode(n)
		return checkMode(*target)
	}
	return &o
}
