package translations

import (
	"testing"

	"k8s.io/kubectl/pkg/util/i18n"
)

func TestLocaleChoosesWhetherTranslationsAreRead(t *testing.T) {
	for name, test := range map[string]struct {
		env  map[string]string
		want bool
	}{
		"nothing is set":             {nil, true},
		"empty":                      {map[string]string{"LC_ALL": "", "LANG": "C"}, true},
		"a container's":              {map[string]string{"LANG": "C.UTF-8"}, true},
		"POSIX":                      {map[string]string{"LANG": "POSIX"}, true},
		"English":                    {map[string]string{"LANG": "en_US.UTF-8"}, true},
		"English of another country": {map[string]string{"LANG": "en_GB.UTF-8"}, true},
		"German":                     {map[string]string{"LANG": "de_DE.UTF-8"}, false},
		"messages in German":         {map[string]string{"LC_MESSAGES": "de_DE.UTF-8", "LANG": "en_US.UTF-8"}, false},
		"all in English":             {map[string]string{"LC_ALL": "C", "LC_MESSAGES": "de_DE.UTF-8", "LANG": "ja_JP.UTF-8"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := inEnglish(func(name string) string { return test.env[name] }); got != test.want {
				t.Errorf("in English: %t, want %t", got, test.want)
			}
		})
	}
}

// Without translations a text is what the code has.
func TestUntranslatedTextIsThatOfTheCode(t *testing.T) {
	t.Setenv("LC_ALL", "C")
	const text = "Display one or many resources"
	if got := i18n.T(text); got != text {
		t.Errorf("%q has become %q", text, got)
	}
}
