// Package translations keeps kubectl from reading its translations for those who want English.
//
// kubectl translates its texts while its packages are initialised. So every command of the program, and the server, began by reading
// 350 kB of messages, of which the English ones are what the code has anyway. This package changes how they are read while it is itself
// initialised. That is before anything is translated, because Go initialises packages in the order of their import paths, each as soon as
// its imports are initialised: github.com/… is before k8s.io/….
package translations

import (
	"os"
	"strings"

	"k8s.io/kubectl/pkg/util/i18n"
)

func init() {
	read := i18n.LoadTranslationsFunc
	err := i18n.SetLoadTranslationsFunc(func() error {
		if inEnglish(os.Getenv) {
			return nil
		}
		return read()
	})
	if err != nil {
		panic(err) // something was translated before, in every process
	}
}

// inEnglish reports whether the locale wants the messages as the code has them. It is the first of three variables that is set, as
// gettext has it.
func inEnglish(env func(string) string) bool {
	locale := env("LC_ALL")
	for _, name := range []string{"LC_MESSAGES", "LANG"} {
		if locale == "" {
			locale = env(name)
		}
	}
	language, _, _ := strings.Cut(locale, ".")
	return language == "" || language == "C" || language == "POSIX" || strings.HasPrefix(language, "en_")
}
