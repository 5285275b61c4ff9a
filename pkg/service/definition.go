package service

import (
	"embed"
	"strings"
	"text/template"
)

//go:embed *.tmpl
var templateFiles embed.FS

var templates = template.Must(template.ParseFS(templateFiles, "*.tmpl"))

// render fills a template of this package.
func render(name string, data any) string {
	var b strings.Builder
	if err := templates.ExecuteTemplate(&b, name, data); err != nil {
		panic(err) // a template and its data are both of this package
	}
	return b.String()
}

// serviceDefinition returns the file that makes a service one for the init system.
func (p place) serviceDefinition(kind, hash, dataDir string, arguments []string) file {
	quoted := shellQuote(arguments...)
	fields := map[string]string{
		"Service": p.service, "EnvFile": p.envFile, "Binary": p.binary(), "Hash": hash, "Arguments": quoted,
	}
	if kind == OpenRC {
		// Its supervisor evaluates them once more.
		fields["CommandArgs"] = shellQuote("server " + quoted)
		return file{path: p.rcScript, content: render("reap.openrc.tmpl", fields), mode: 0o755}
	}
	fields["SystemdArguments"] = systemdQuote(arguments...)
	fields["ProtectSystem"] = "yes"
	for _, protected := range []string{"/usr/", "/boot/", "/efi/"} {
		if strings.HasPrefix(dataDir, protected) {
			fields["ProtectSystem"] = "no"
		}
	}
	return file{path: p.unit, content: render("reap.service.tmpl", fields), mode: 0o644}
}

// definedBinDir returns the directory of the binary that a definition runs; "" if it names none.
func definedBinDir(kind, definition string) string {
	switch kind {
	case Systemd:
		command := recorded(definition, "ExecStart=")
		if dir, _, found := strings.Cut(command, "/reap server"); found && !strings.Contains(dir, " ") {
			return binDir(dir)
		}
	case OpenRC:
		if dir, found := strings.CutSuffix(recorded(definition, "command="), "/reap"); found {
			return binDir(dir)
		}
	}
	return ""
}

// binDir is the directory of a program, of whose path dir is what comes before the last slash; "" if the path is relative.
func binDir(dir string) string {
	switch {
	case dir == "":
		return "/"
	case strings.HasPrefix(dir, "/"):
		return dir
	}
	return ""
}
