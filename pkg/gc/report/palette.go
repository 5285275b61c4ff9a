package report

// Palette colours words for a terminal. Each function returns its text with what turns the
// colour on and off again.
type Palette struct {
	// Bad is for what somebody should look at, Strong for names, Faint for what can be skipped.
	Bad, Strong, Faint func(string) string
}

// Plain colours nothing.
var Plain = Palette{Bad: plain, Strong: plain, Faint: plain}

func plain(s string) string { return s }
