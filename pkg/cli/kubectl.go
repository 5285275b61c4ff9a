package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"github.com/urfave/cli/v2"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // kubectl's ways to log in
	"k8s.io/client-go/tools/clientcmd"
	componentcli "k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	"k8s.io/klog/v2"
	"k8s.io/kubectl/pkg/cmd"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/reap-dev/reap/pkg/config"
	_ "github.com/reap-dev/reap/pkg/translations" // before kubectl translates
)

// kubectlName is a command of reap, and the name under which the whole program is kubectl.
const kubectlName = "kubectl"

const kubectlDescription = `Runs the kubectl of the server's own version, with everything that follows: flags, --help, plugins, the exit code.

It talks to what --kubeconfig names, else $KUBECONFIG, else the reap server on this machine, whether it runs or not ($REAP_DATA_DIR, the installed service and the configuration file say where that is), else ~/.kube/config. That server writes its kubeconfig anew when something else has changed it, so changes made there with 'kubectl config' do not last.

Called through a link named kubectl, the program is kubectl and looks where kubectl looks. A link named kubectl-reap makes reap a plugin of any kubectl: 'kubectl reap --help'. A link named kubectl_complete-reap completes the plugin's arguments.`

const kubectlExamples = `reap kubectl get pods --all-namespaces
reap kubectl apply -f - < objects.yaml
REAP_DATA_DIR=~/reap reap kubectl get namespaces
ln -s "$(command -v reap)" ~/.local/bin/kubectl`

func kubectlCommand() *cli.Command {
	return &cli.Command{
		Name:               kubectlName,
		Usage:              "run kubectl, for the server on this machine unless told otherwise",
		UsageText:          "reap kubectl [everything that kubectl takes]",
		Description:        kubectlDescription,
		CustomHelpTemplate: commandHelp(kubectlExamples),
		// Whatever follows is kubectl's, --help included.
		SkipFlagParsing: true,
		HideHelp:        true,
		Action: func(c *cli.Context) error {
			args := c.Args().Slice()
			if err := useLocalServer(args); err != nil {
				return err
			}
			sayOnce(args)
			runKubectl(args)
			return nil
		},
	}
}

// useLocalServer puts this machine's server where kubectl looks, if nothing else says which one is meant.
// In the environment, plugins find it too. kubectl goes on to ~/.kube/config if there is none.
func useLocalServer(args []string) error {
	if os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != "" || namesKubeconfig(args) {
		return nil
	}
	_, client := config.ClientFlags(installedServices)
	path, err := findLocalKubeconfig(client)
	if err != nil {
		return err
	}
	if path != "" && !missing(path) {
		return os.Setenv(clientcmd.RecommendedConfigPathEnvVar, path)
	}
	if _, _, err := findKubeconfig(client); err != nil && clientcmd.ClusterDefaults.Server == kubectlsDefault {
		failWithoutServer(err)
	}
	return nil
}

// kubectlsDefault is what kubectl calls if nothing names a server, in the environment neither.
const kubectlsDefault = "http://localhost:8080"

// failWithoutServer has kubectl fail with why if it needs a server, and neither its command line nor the pod in which it runs
// names one. Else it would call kubectlsDefault, where no API server has listened for years.
func failWithoutServer(why error) {
	clientcmd.ClusterDefaults.Server = ""
	cmdutil.BehaviorOnFatal(func(message string, code int) {
		if strings.Contains(message, genericclioptions.ErrEmptyConfig.Error()) {
			message = "error: " + why.Error()
		}
		if message != "" {
			fmt.Fprintln(os.Stderr, strings.TrimSuffix(message, "\n"))
		}
		os.Exit(code)
	})
}

// sayOnce keeps kubectl from logging, five times, the error that it then prints. With -v it logs everything.
func sayOnce(args []string) {
	if cmd.GetLogVerbosity(append([]string{kubectlName}, args...)) != "0" {
		return
	}
	utilruntime.ErrorHandlers[0] = func(ctx context.Context, err error, message string, details ...any) {
		if message == "Couldn't get current server API group list" {
			return
		}
		klog.FromContext(ctx).WithCallDepth(3).WithName("UnhandledError").Error(err, message, details...) // as the handler that stood here
	}
}

// namesKubeconfig reports whether a command line of kubectl's has the flag.
func namesKubeconfig(args []string) bool {
	if end := slices.Index(args, "--"); end >= 0 {
		args = args[:end] // what follows is some other program's
	}
	flag := "--" + clientcmd.RecommendedConfigPathFlag
	return slices.ContainsFunc(args, func(a string) bool { return a == flag || strings.HasPrefix(a, flag+"=") })
}

// runKubectl makes the process kubectl. It returns if kubectl succeeds; otherwise kubectl itself prints why
// and ends the process with its exit code, as it also does from goroutines of its own.
func runKubectl(args []string) {
	// kubectl looks here for its arguments, and calls itself by this name to the server, which keeps it in
	// managedFields, and in its messages.
	os.Args = append([]string{kubectlName}, args...)
	// cobra adds what is registered here to every command: flags of the API server's packages.
	pflag.CommandLine = pflag.NewFlagSet(kubectlName, pflag.ExitOnError)
	// Ctrl-C is kubectl's to handle, or ends it.
	signal.Reset(endSignals...)

	// From here on as kubectl's own main has it: the first line is for what is logged before flags are parsed.
	_, _ = logs.GlogSetter(cmd.GetLogVerbosity(os.Args)) // a wrong value is an error of the flag, soon
	cmdutil.CheckErr(componentcli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()))
}
