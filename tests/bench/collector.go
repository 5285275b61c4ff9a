package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/sirupsen/logrus"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/reap-dev/reap/pkg/gc"
	"github.com/reap-dev/reap/tests/stock"
)

// collectorCommand makes the program a collector in a process of its own, as kube-controller-manager is: it runs
// until its standard input ends, and answers each line of that with its heap.
const collectorCommand = "collector"

// The collectors that there are.
const (
	own             = "reap"
	upstream        = "upstream"
	upstreamShipped = "upstream as shipped"
)

// userAgent is how the server's audit log knows upstream's collector.
const userAgent = "upstream-garbage-collector"

// heap is what a collector answers.
type heap struct {
	Live     uint64 `json:"live"`     // bytes of the heap that are in use, after a collection
	Resident uint64 `json:"resident"` // RssAnon of the process, what is free returned
}

// child is a collector as a process of its own.
type child struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
	ended bool
}

// collector starts a collector for a server. Until it has done something, nothing is known of it.
func (s *server) collector(which string) (*child, error) {
	c := &child{cmd: exec.Command("/proc/self/exe", collectorCommand, which, s.kubeconfig)}
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	c.cmd.Stderr = os.Stderr
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewReader(out)
	return c, c.cmd.Start()
}

// stop stops the collector.
func (c *child) stop() error {
	if c.ended {
		return nil
	}
	c.ended = true
	return errors.Join(c.in.Close(), c.cmd.Wait())
}

func (c *child) heap() (h heap, err error) {
	if _, err := fmt.Fprintln(c.in, "heap"); err != nil {
		return heap{}, err
	}
	line, err := c.out.ReadBytes('\n')
	if err != nil {
		return heap{}, fmt.Errorf("asking a collector for its heap: %w", err)
	}
	return h, json.Unmarshal(line, &h)
}

// runCollector is the collector's process.
func runCollector(args []string) error {
	if len(args) != 2 {
		return errors.New("a collector needs its name and a kubeconfig")
	}
	// Upstream's collector logs every failure, with all owners of the object. klog writes errors to stderr too, unless
	// its threshold is higher.
	settings := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(settings)
	if err := errors.Join(settings.Set("logtostderr", "false"), settings.Set("stderrthreshold", "FATAL")); err != nil {
		return err
	}
	klog.SetOutput(io.Discard)
	config, err := clientConfig(args[1])
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	failed := make(chan error, 1)
	switch args[0] {
	case own:
		runOwn(ctx, config, failed)
	case upstream:
		err = runUpstream(ctx, config, rest.CopyConfig(config))
	case upstreamShipped:
		// kube-controller-manager's defaults, and the limits that it derives from them for this controller.
		config.QPS, config.Burst = 20, 30
		twice := rest.CopyConfig(config)
		twice.QPS *= 2
		err = runUpstream(ctx, config, twice)
	default:
		err = fmt.Errorf("unknown collector %s", args[0])
	}
	if err != nil {
		return err
	}
	go func() { failed <- answer(os.Stdin, os.Stdout) }()
	return <-failed
}

// answer writes the heap once for each line of standard input, until that ends.
func answer(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		h, err := ownHeap()
		if err != nil {
			return err
		}
		if err := json.NewEncoder(out).Encode(h); err != nil {
			return err
		}
	}
	return lines.Err()
}

// ownHeap collects garbage, returns free memory to the machine, and returns the remaining heap.
func ownHeap() (heap, error) {
	runtime.GC()
	debug.FreeOSMemory() // collects once more: what finalizers kept
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	m, err := memoryOf(os.Getpid())
	return heap{Live: stats.HeapAlloc, Resident: m.anon}, err
}

// runOwn starts reap's collector.
func runOwn(ctx context.Context, config *rest.Config, failed chan<- error) {
	log := logrus.New()
	log.SetOutput(io.Discard)
	go func() {
		if err := gc.Run(ctx, gc.Options{Config: config, Log: logrus.NewEntry(log)}, nil); err != nil {
			failed <- err
		}
	}()
}

// runUpstream starts the collector of Kubernetes.
func runUpstream(ctx context.Context, config, metaConfig *rest.Config) error {
	for _, c := range []*rest.Config{config, metaConfig} {
		c.UserAgent = userAgent
	}
	_, err := stock.Start(ctx, config, metaConfig)
	return err
}
