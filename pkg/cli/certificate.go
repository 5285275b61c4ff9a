package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/pki"
	"github.com/reap-dev/reap/pkg/server"
)

const certificateDescription = `check shows the state of the certificates of this machine's reap server; rotate makes new ones. Both work on the data directory, whether the server runs or not. Run them as the user who owns the directory.

A running server renews its certificates by itself 90 days before their end, without a restart.`

const certificateExamples = `reap certificate check
reap certificate rotate`

const checkDescription = `Shows each certificate of the data directory, when it expires and whether it is in order. It writes nothing.

The exit code is 1 if a certificate has expired, is due for renewal, is not signed by its authority, does not fit its key, or cannot be read.`

const checkExamples = `reap certificate check
reap certificate check --data-dir /srv/reap -o json`

const rotateDescription = `Makes new certificates with new keys, for the same names, and writes the administrator's certificate into the server's kubeconfig. Without NAME it replaces all certificates except the authorities, which it never replaces.

A running server uses the new certificates within seconds, without a restart, and updates the file of --write-kubeconfig. Old certificates stay valid until they expire.`

const rotateExamples = `reap certificate rotate
reap certificate rotate serving
reap certificate rotate admin --data-dir /srv/reap -o json`

// lockWithin bounds the wait for a server that starts, which holds the certificates until it has read them.
const lockWithin = 2 * time.Minute

func certificateCommand() *cli.Command {
	return command(certificateExamples, &cli.Command{
		Name:        "certificate",
		Usage:       "check or renew the certificates of this machine's server",
		UsageText:   "reap certificate check|rotate [flags]",
		Description: certificateDescription,
		Subcommands: []*cli.Command{checkCertificatesCommand(), rotateCertificatesCommand()},
		Action:      showSubcommands,
	})
}

func checkCertificatesCommand() *cli.Command {
	flags, find := config.DataDirFlags(installedServices)
	return command(checkExamples, &cli.Command{
		Name:        "check",
		Usage:       "show the certificates, and fail if one is not in order",
		UsageText:   "reap certificate check [flags]",
		Description: checkDescription,
		Flags:       append(flags, outputFlag()),
		Action: func(c *cli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			format, err := checkOutput(c)
			if err != nil {
				return err
			}
			dir, err := existingDataDir(find)
			if err != nil {
				return err
			}
			var r checked
			err = withCertificates(c.Context, dir, func(pkiDir string) (err error) {
				r.Certificates, err = pki.Inspect(pkiDir, time.Now())
				return err
			})
			if err != nil {
				return failed(err)
			}
			if err := print(c.App.Writer, format, r); err != nil {
				return failed(err)
			}
			return failed(r.verdict())
		},
	})
}

func rotateCertificatesCommand() *cli.Command {
	flags, find := config.DataDirFlags(installedServices)
	c := command(rotateExamples, &cli.Command{
		Name:        "rotate",
		Usage:       "make new certificates now",
		UsageText:   "reap certificate rotate [NAME...] [flags]",
		Description: rotateDescription,
		Flags:       append(flags, outputFlag()),
		Action: func(c *cli.Context) error {
			names := c.Args().Slice()
			if err := checkLeafNames(names); err != nil {
				return fmt.Errorf("%w; see '%s --help'", err, c.Command.HelpName)
			}
			format, err := checkOutput(c)
			if err != nil {
				return err
			}
			dir, err := existingDataDir(find)
			if err != nil {
				return err
			}
			var r rotated
			if err := withCertificates(c.Context, dir, func(pkiDir string) error { return r.rotate(dir, pkiDir, names) }); err != nil {
				return failed(err)
			}
			return failed(print(c.App.Writer, format, r))
		},
	})
	c.BashComplete = func(ctx *cli.Context) {
		if word := os.Args[len(os.Args)-2]; strings.HasPrefix(word, "-") {
			cli.DefaultCompleteWithFlags(c)(ctx)
			return
		}
		fmt.Fprintln(ctx.App.Writer, strings.Join(pki.LeafNames(), "\n"))
	}
	return c
}

func checkLeafNames(names []string) error {
	there := pki.LeafNames()
	for _, name := range names {
		if slices.Contains(there, name) {
			continue
		}
		if strings.HasSuffix(name, "-ca") {
			return fmt.Errorf("%q cannot be rotated: authorities are replaced by hand; there is %s", name, strings.Join(there, ", "))
		}
		text := fmt.Sprintf("no certificate is called %q", name)
		if n := config.Nearest(name, there); n != "" {
			text += fmt.Sprintf(" (did you mean %q?)", n)
		}
		return fmt.Errorf("%s: there is %s", text, strings.Join(there, ", "))
	}
	return nil
}

// existingDataDir returns the data directory if a server has run on it.
func existingDataDir(find func() (string, error)) (string, error) {
	dir, err := find()
	if err != nil {
		return "", err
	}
	if dir == "" {
		return "", errors.New("--data-dir: no directory is given, and there is no home directory to look in: name one")
	}
	if missing(config.PKIDir(dir)) {
		return "", fmt.Errorf("--data-dir: no server has run on %s: start it with 'reap server --data-dir %s'", dir, dir)
	}
	return dir, nil
}

// withCertificates does its work while no server is at the certificates.
func withCertificates(ctx context.Context, dataDir string, work func(pkiDir string) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, lockWithin, fmt.Errorf("still busy after %s", lockWithin))
	defer cancel()
	unlock, err := pki.Lock(ctx, dataDir)
	if err != nil {
		return err
	}
	defer unlock()
	return work(config.PKIDir(dataDir))
}

// checked is what `reap certificate check` shows.
type checked struct {
	Certificates []pki.Certificate `json:"certificates"`
}

// Print writes the certificates for people.
func (r checked) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tVERDICT\tEXPIRES\tLEFT\tSUBJECT\tFILE\tSANS")
	for _, c := range r.Certificates {
		sans := strings.Join(c.SANs, ",")
		if sans == "" {
			sans = "-"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", c.Name, c.Verdict, until(c), left(c), c.Subject, c.File, sans)
	}
	return w.Flush()
}

// verdict is an error if one of the certificates needs looking at.
func (r checked) verdict() error {
	var bad []string
	hint := "'reap certificate rotate' makes new ones"
	for _, c := range r.Certificates {
		if c.Verdict == pki.OK {
			continue
		}
		bad = append(bad, fmt.Sprintf("%s (%s)", c.Name, c.Verdict))
		if c.Authority == "" {
			hint = "authorities are replaced by hand, see docs/certificates.md"
		}
	}
	if bad == nil {
		return nil
	}
	return fmt.Errorf("%d of %d certificates are not in order: %s; %s", len(bad), len(r.Certificates), strings.Join(bad, ", "), hint)
}

// until is a certificate's end.
func until(c pki.Certificate) string {
	if c.Endless() {
		return "never"
	}
	return c.Expires.UTC().Format(time.RFC3339)
}

// left is how long a certificate lasts.
func left(c pki.Certificate) string {
	switch {
	case c.Endless():
		return "-"
	case c.RemainingSeconds < 0:
		return "none"
	}
	// A duration holds 292 years.
	const century = 100 * 365 * 24 * 60 * 60
	return duration.HumanDuration(time.Duration(min(c.RemainingSeconds, century)) * time.Second)
}

// rotated is what `reap certificate rotate` shows.
type rotated struct {
	Rotated []pki.Certificate `json:"rotated"`
	// Kubeconfig is the one in the data directory if it holds one of them.
	Kubeconfig string `json:"kubeconfig,omitempty"`
}

// rotate makes the certificates anew, and the kubeconfig that holds one.
func (r *rotated) rotate(dataDir, pkiDir string, names []string) error {
	if err := server.CheckFormat(dataDir); err != nil {
		return err
	}
	if err := pki.Rotate(pkiDir, time.Now(), names...); err != nil {
		return err
	}
	all, err := pki.Inspect(pkiDir, time.Now())
	if err != nil {
		return err
	}
	for _, c := range all {
		if c.Authority != "" && (len(names) == 0 || slices.Contains(names, c.Name)) {
			r.Rotated = append(r.Rotated, c)
		}
	}
	kubeconfig := config.AdminKubeconfig(dataDir)
	written, err := pki.RenewKubeconfig(kubeconfig, 0o600, pkiDir)
	if err != nil {
		return fmt.Errorf("the certificates are new, but updating the kubeconfig failed: %w", err)
	}
	if written && (len(names) == 0 || slices.Contains(names, "admin")) {
		r.Kubeconfig = kubeconfig
	}
	return nil
}

// Print writes for people what has been done.
func (r rotated) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, c := range r.Rotated {
		fmt.Fprintf(w, "%s\tnew, until %s\n", c.Name, until(c))
	}
	if r.Kubeconfig != "" {
		fmt.Fprintf(w, "kubeconfig\t%s has the administrator's\n", r.Kubeconfig)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out, "a running server takes them up by itself")
	return err
}
