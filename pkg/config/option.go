package config

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
)

// option is one setting of a command, bound to the field it sets. Each option is a flag, an environment
// variable and a key of the YAML file.
type option struct {
	name string
	// alias is a second flag name and YAML key, "" for none. A list must not have one: urfave copies values
	// from one name to the other, which would duplicate the list's elements.
	alias string
	// category, placeholder, usage and shown are for the help; shown is the text of the default.
	category, placeholder, usage, shown string
	// list is true if the option can be repeated.
	list bool
	// commas is true if commas separate a list's elements.
	commas bool
	// reset empties a list; nil if the option is not a list.
	reset func()
	// set sets the value, or appends an element to a list. Its error says what is wrong with the value
	// and what is accepted; the caller adds the option's name and the source of the value.
	set func(text string) error
	// get returns the value that the option has.
	get func() string

	// flag holds what the command line gave.
	flag flagValue
	// boolean is true if the flag without a value means true.
	boolean bool
}

// flagValue collects a flag's raw values in urfave's parser. This way the same code parses the values of all
// layers, and the layer of each value is known.
type flagValue struct {
	list   bool
	bare   bool
	given  bool
	values []string
	// env is the option's environment variable.
	env string
}

// Environment returns the environment variable of the same option as a flag, "" for a flag that is not an option of
// this package. The option's key in a configuration file is the flag's name.
func Environment(f cli.Flag) string {
	if g, ok := f.(*cli.GenericFlag); ok {
		if v, ok := g.Value.(*flagValue); ok {
			return v.env
		}
	}
	return ""
}

// Set implements flag.Value. Unless the option is a list, the last value wins.
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

// env returns the name of the option's environment variable.
func (o *option) env() string {
	return variable(o.name)
}

// names returns the option's names on the command line and in files.
func (o *option) names() []string {
	if o.alias == "" {
		return []string{o.name}
	}
	return []string{o.name, o.alias}
}

// cliFlag returns the option as a flag. It does not pass the environment variable to urfave, which would then
// read the variable itself and hide which layer the value came from.
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

// elements splits a text into a list's elements. An empty text has none: it empties the list.
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

// asIs returns a parser that checks a string and does not change it.
func asIs(check func(string) error) func(string) (string, error) {
	return func(text string) (string, error) { return text, check(text) }
}

func stringOption(target *string, parse func(string) (string, error), o option) *option {
	o.shown = *target
	o.get = func() string { return *target }
	o.set = func(text string) (err error) {
		*target, err = parse(text)
		return err
	}
	return &o
}

func listOption(target *[]string, parse func(string) (string, error), o option) *option {
	o.list = true
	o.reset = func() { *target = nil }
	o.get = func() string { return strings.Join(*target, "\n") }
	o.set = func(text string) error {
		element, err := parse(text)
		*target = append(*target, element)
		return err
	}
	return &o
}

// intOption binds an int. accept says which values are accepted, for a text that is not a number; check
// returns its own error for a number out of range.
func intOption(target *int, check func(int) error, accept string, o option) *option {
	o.shown = strconv.Itoa(*target)
	o.get = func() string { return strconv.Itoa(*target) }
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

// durationOption parses a duration such as 90s or 1h. The option's usage says what 0 means.
func durationOption(target *time.Duration, check func(time.Duration) error, accept string, o option) *option {
	o.shown = target.String()
	o.get = func() string { return target.String() }
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

// boolOption binds a bool. Its value follows an equals sign or is left out: the parser takes the next word for another flag.
func boolOption(target *bool, o option) *option {
	o.boolean = true
	o.placeholder = "[=BOOL]"
	o.shown = strconv.FormatBool(*target)
	o.get = func() string { return strconv.FormatBool(*target) }
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

// modeOption parses an octal number, with or without a leading 0 or 0o.
func modeOption(target *os.FileMode, o option) *option {
	o.shown = fmt.Sprintf("%04o", *target)
	o.get = func() string { return fmt.Sprintf("%04o", *target) }
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
