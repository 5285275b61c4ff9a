package clients

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// Pages whose commands are run here.
const (
	kwokPage = "../../docs/kwok.md"
	helmPage = "../../docs/helm.md"
)

// block returns the first block of a page in that language.
func block(page, language string) (string, error) {
	raw, err := os.ReadFile(page)
	if err != nil {
		return "", err
	}
	_, rest, _ := strings.Cut(string(raw), "\n```"+language+"\n")
	text, _, found := strings.Cut(rest, "\n```\n")
	if !found {
		return "", fmt.Errorf("%s has no block in %s", page, language)
	}
	return text + "\n", nil
}

// step is what one prompt of a page shows: a command and what it prints. "" is not compared.
type step struct{ command, output string }

// steps are those of the page's console blocks, as tests/walkthrough has them: `$` begins a command, `>` goes on with it.
func steps(t *testing.T, page string) (all []step) {
	t.Helper()
	raw, err := os.ReadFile(page)
	must(t, err)
	inside := false
	for line := range strings.Lines(string(raw)) {
		if strings.HasPrefix(line, "```") {
			inside = line == "```console\n"
			continue
		}
		if !inside {
			continue
		}
		if command, is := strings.CutPrefix(line, "$ "); is {
			all = append(all, step{command: command})
			continue
		}
		if len(all) == 0 {
			t.Fatalf("%s: no command has printed %q", page, line)
		}
		last := &all[len(all)-1]
		if command, is := strings.CutPrefix(line, "> "); is && last.output == "" {
			last.command += command
		} else {
			last.output += line
		}
	}
	if len(all) == 0 {
		t.Fatalf("%s has no commands", page)
	}
	return all
}

// walk runs the commands of a page in one bash, in a directory of its own, and compares what they print. The server's port is
// any free one.
func walk(t *testing.T, page string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "walk-") // short: a socket's path is limited
	must(t, err)
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	program, err := exec.LookPath(os.Getenv("REAP_BINARY"))
	if err != nil {
		t.Fatalf("$REAP_BINARY names no program: run this with ./scripts/test tests/clients: %v", err)
	}
	must(t, os.Symlink(program, filepath.Join(dir, "reap")))
	must(t, os.WriteFile(filepath.Join(dir, "config.yaml"), nil, 0o600)) // in place of this machine's own

	all := steps(t, page)
	script := "trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT\n"
	for i, s := range all {
		script += fmt.Sprintf("echo %d > step\n{\n%s} > output-%d 2>&1 < /dev/null || exit 1\n", i, s.command, i)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "--noprofile", "--norc")
	cmd.Dir = dir
	cmd.Stdin = strings.NewReader(script)
	cmd.Env = []string{
		"PATH=" + dir + ":" + bin + ":" + os.Getenv("PATH"), "HOME=" + dir, "LC_ALL=C.UTF-8", "REAP_CONFIG=" + dir + "/config.yaml", "REAP_HTTPS_LISTEN_PORT=0",
	}
	for _, name := range []string{"GOMODCACHE", "GOCACHE", "GOPROXY"} {
		value, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
		must(t, err)
		cmd.Env = append(cmd.Env, name+"="+strings.TrimSpace(string(value)))
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	// With the test's time over, everything that the page has started goes too.
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out, runErr := cmd.CombinedOutput()
	for i, s := range all {
		raw, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("output-%d", i)))
		if err != nil {
			break // it has not been run
		}
		if got := strings.ReplaceAll(string(raw), dir, "/home/you"); s.output != "" && normal(got) != normal(s.output) {
			t.Errorf("%s: %s prints\n%s\nand the page shows\n%s", page, s.command, got, s.output)
		}
	}
	if runErr != nil {
		last, _ := os.ReadFile(filepath.Join(dir, "step"))
		raw, _ := os.ReadFile(filepath.Join(dir, "output-"+strings.TrimSpace(string(last))))
		t.Fatalf("%s: command %s has failed: %v: %s\n%s", page, last, runErr, out, raw)
	}
}

var (
	address = regexp.MustCompile(`https://127\.0\.0\.1:\d+`)
	hash    = regexp.MustCompile(`\bweb-[0-9a-z]{6,10}-[0-9a-z]{5}\b`)
	age     = regexp.MustCompile(`\b\d+(ms|s|m)\b`)
	spaces  = regexp.MustCompile(`[ \t]+`)
)

// normal takes away what differs between two runs.
func normal(output string) string {
	output = address.ReplaceAllString(output, "URL")
	output = hash.ReplaceAllString(output, "web-POD")
	output = age.ReplaceAllString(output, "AGE")
	return strings.TrimSpace(spaces.ReplaceAllString(output, " "))
}

func TestCommandsOfThePageAboutHelm(t *testing.T) {
	t.Parallel()
	walk(t, helmPage)
}

// TestPagesNameTheVersionsThatAreTested: whoever follows a page gets the programs that are tested here.
func TestPagesNameTheVersionsThatAreTested(t *testing.T) {
	t.Parallel()
	for page, programs := range map[string]map[string]string{
		kwokPage: {"sigs.k8s.io/kwok": kwokPackage},
		helmPage: {"helm.sh/helm/v3": helmPackage},
	} {
		raw, err := os.ReadFile(page)
		must(t, err)
		for module, program := range programs {
			version, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Version}}", module).Output()
			must(t, err)
			if want := program + "@" + strings.TrimSpace(string(version)); !strings.Contains(string(raw), want) {
				t.Errorf("%s does not install %s", page, want)
			}
			for _, named := range regexp.MustCompile(regexp.QuoteMeta(module)+`[a-z/]*@(v[0-9.]*[0-9])`).FindAllStringSubmatch(string(raw), -1) {
				if named[1] != strings.TrimSpace(string(version)) {
					t.Errorf("%s names %s, and go.mod %s", page, named[0], version)
				}
			}
		}
	}
	raw, err := os.ReadFile(kwokPage)
	must(t, err)
	for _, program := range []string{schedulerPackage, managerPackage} {
		if want := "go build -C tests/clients -o ../../bin/ " + program; !strings.Contains(string(raw), want) {
			t.Errorf("%s does not show %q", kwokPage, want)
		}
	}
}
