// Package apiserver runs kube-apiserver in process.
//
// It is configured through kube-apiserver's own options, and adds three things: a
// transport that reaches the handler chain without a connection, notes of other
// parts in /readyz, and a stop within seconds. Feature gates and the metrics registry
// are global, so only one API server can run in a process.
package apiserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

// Server is a running API server.
type Server struct {
	handler http.Handler
	users   courtesy
	cancel  context.CancelFunc
	serving sync.WaitGroup
	done    chan struct{} // closed when the API server has returned
	err     error         // why it returned; read after done
	gaveUp  chan struct{} // closed when kube-apiserver's code met a fatal error
	giveUp  sync.Once
	damage  damage // found in the datastore during the start
}

// Start starts the API server and returns when /readyz succeeds. Cancelling ctx
// aborts the start; it does not stop a Server that has been returned. Start closes the
// listener on an error, and the server closes it when it stops.
func Start(ctx context.Context, o Options) (*Server, error) {
	runCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &Server{cancel: cancel, done: make(chan struct{}), gaveUp: make(chan struct{})}
	// On a fatal error kube-apiserver ends the process from any goroutine. Here that
	// goroutine ends, and the server stops in order.
	klog.OsExit = func(int) {
		s.giveUp.Do(func() { close(s.gaveUp) })
		runtime.Goexit()
	}
	chain, documents, err := s.build(runCtx, o)
	if err != nil {
		cancel()
		return nil, errors.Join(err, o.close())
	}
	s.handler = chain.GenericAPIServer.Handler
	chain.GenericAPIServer.ShutdownTimeout = shutdownTimeout
	prepared, err := chain.PrepareRun()
	if err != nil {
		cancel()
		return nil, errors.Join(fmt.Errorf("preparing the API server: %w", err), o.close())
	}
	if ctx.Err() != nil {
		cancel()
		return nil, errors.Join(fmt.Errorf("preparing the API server: %w", context.Cause(ctx)), o.close())
	}
	documents.started()
	go func() {
		defer close(s.done)
		s.err = prepared.Run(runCtx)
	}()
	if err := s.waitReady(ctx); err != nil {
		// Nobody has been served yet, so nothing is lost. The first writes wait for admission for up to ten seconds.
		stopCtx, end := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer end()
		return nil, errors.Join(err, s.Stop(stopCtx))
	}
	s.damage.ignore()
	return s, nil
}

// errGaveUp stands for a fatal error in kube-apiserver's code, which only the log tells.
var errGaveUp = errors.New("fatal error; see the log")

// Wait returns nil when ctx is cancelled. If the API server ends by itself before, Wait
// returns the reason.
func (s *Server) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-s.gaveUp:
		return errGaveUp
	case <-s.done:
		return errors.Join(errors.New("it ended unexpectedly"), s.err)
	}
}

// Stop stops the API server and waits for it and its remaining in-process calls, at
// most until ctx is cancelled. Users of in-process clients must stop before.
func (s *Server) Stop(ctx context.Context) error {
	s.cancel()
	// If ctx is cancelled first, this goroutine ends with the process, which is stopping.
	all := make(chan struct{})
	go func() {
		defer close(all)
		<-s.done
		s.serving.Wait()
	}()
	select {
	case <-all:
		return s.err
	case <-ctx.Done():
		return fmt.Errorf("stopping the API server: %w", context.Cause(ctx))
	}
}

// ServiceAccountConfig returns a client configuration for in-process calls as a
// service account of kube-system. Its rights are those that the bootstrap policy
// grants to the stock controller of that name.
func (s *Server) ServiceAccountConfig(name string) *rest.Config {
	return s.configFor(serviceaccount.UserInfo(metav1.NamespaceSystem, name, ""))
}

// ControllerManagerConfig returns a client configuration for in-process calls as
// kube-controller-manager's own user, which may list and watch everything.
func (s *Server) ControllerManagerConfig() *rest.Config {
	return s.configFor(&user.DefaultInfo{Name: user.KubeControllerManager})
}

// PauserConfig returns a client configuration for in-process calls as a user who may create the ConfigMap that pauses the
// collector, which the collector itself may not.
func (s *Server) PauserConfig() *rest.Config {
	return s.configFor(&user.DefaultInfo{Name: "reap:gc-guard", Groups: []string{user.SystemPrivilegedGroup}})
}

// OwnConfig returns a client configuration for in-process calls as the API server itself, which may do everything. Use it
// for objects that the server has to write at its start.
func (s *Server) OwnConfig() *rest.Config {
	return s.configFor(&user.DefaultInfo{Name: user.APIServerUser, Groups: []string{user.SystemPrivilegedGroup}})
}

func (s *Server) configFor(u user.Info) *rest.Config {
	caller := &user.DefaultInfo{Name: u.GetName(), Groups: append(slices.Clone(u.GetGroups()), user.AllAuthenticated)}
	return (&transport{handler: s.handler, users: &s.users, caller: caller, serving: &s.serving}).config()
}

// build assembles the API server; nothing runs yet.
func (s *Server) build(ctx context.Context, o Options) (*aggregatorapiserver.APIAggregator, *openAPI, error) {
	run, err := runOptions(o)
	if err != nil {
		return nil, nil, err
	}
	if err := run.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return nil, nil, fmt.Errorf("setting feature gates: %w", err)
	}
	completed, err := run.Complete(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("completing the API server's options: %w", err)
	}
	if errs := completed.Validate(); len(errs) != 0 {
		return nil, nil, fmt.Errorf("checking the API server's options: %w", utilerrors.NewAggregate(errs))
	}
	config, err := app.NewConfig(completed)
	if err != nil {
		return nil, nil, fmt.Errorf("configuring the API server: %w", err)
	}
	connect := new(connections).connect
	if o.Client != nil {
		connect = inProcess(o.Client)
		checkProgress(ctx, o.Client())
	}
	if o.CommandLine == nil {
		for _, c := range []*genericapiserver.Config{config.KubeAPIs.ControlPlane.Generic, &config.Aggregator.GenericConfig.Config, &config.ApiExtensions.GenericConfig.Config} {
			livenessOfTheProcess(c)
		}
	}
	if err := useStores(config, connect, &s.damage); err != nil {
		return nil, nil, fmt.Errorf("configuring the API server: %w", err)
	}
	authn := &config.Aggregator.GenericConfig.Authentication
	authn.Authenticator = union.NewFailOnError(inProcessAuthenticator, authn.Authenticator)
	if o.CommandLine == nil { // which says itself who may come without credentials
		authn.Authenticator = union.NewFailOnError(authn.Authenticator, anonymous.NewAuthenticator(allowAnonymous()))
	}
	// withReading, withNotes and the guard of the store are innermost, where the caller and the request are known. Counting
	// users and taking leave of them are outermost.
	chainOf := config.Aggregator.GenericConfig.BuildHandlerChainFunc
	config.Aggregator.GenericConfig.BuildHandlerChainFunc = func(h http.Handler, c *genericapiserver.Config) http.Handler {
		all := s.users.counting(chainOf(guarded(withReading(withNotes(h, o.Notes)), o.Store), c), c)
		if o.Shared {
			return all
		}
		return new(farewell).to(all)
	}
	endless := config.Aggregator.GenericConfig.LongRunningFunc
	config.Aggregator.GenericConfig.LongRunningFunc = func(r *http.Request, info *request.RequestInfo) bool {
		return slices.Contains(o.LongRunning, r.URL.Path) || endless(r, info)
	}
	prepareOpenAPI(config.KubeAPIs.ControlPlane.Generic)
	hooks, err := takeOver(config.KubeAPIs.ControlPlane.Generic, config.KubeAPIs.ControlPlane.APIResourceConfigSource)
	if err != nil {
		return nil, nil, fmt.Errorf("configuring the API server: %w", err)
	}
	loopback, err := kubernetes.NewForConfig(config.KubeAPIs.ControlPlane.Generic.LoopbackClientConfig)
	if err != nil {
		return nil, nil, fmt.Errorf("configuring the API server: %w", err)
	}
	controlPlane := &config.KubeAPIs.ControlPlane
	controlPlane.VersionedInformers = withLiveAddresses(controlPlane.VersionedInformers, loopback)
	tookServiceCIDR := takeServiceCIDRHook(config.KubeAPIs.ControlPlane.Generic)
	full, err := config.Complete()
	if err != nil {
		return nil, nil, fmt.Errorf("completing the API server: %w", err)
	}
	chain, err := app.CreateServerChain(full)
	if err != nil {
		return nil, nil, fmt.Errorf("assembling the API server: %w", err)
	}
	documents, err := installOpenAPI(chain, config.KubeAPIs.ControlPlane.Generic, o.userArgs())
	if err != nil {
		return nil, nil, fmt.Errorf("assembling the API server: %w", err)
	}
	for _, h := range hooks {
		if err := chain.GenericAPIServer.AddPostStartHook(h.name, h.hook(s.OwnConfig)); err != nil {
			return nil, nil, fmt.Errorf("assembling the API server: %w", err)
		}
	}
	if tookServiceCIDR {
		if err := chain.GenericAPIServer.AddPostStartHook(serviceCIDRHook, newServiceCIDRHook(full.KubeAPIs.Extra)); err != nil {
			return nil, nil, fmt.Errorf("assembling the API server: %w", err)
		}
	}
	for path, h := range o.Handlers {
		mux := chain.GenericAPIServer.Handler.NonGoRestfulMux
		if strings.HasSuffix(path, "/") {
			mux.HandlePrefix(path, h)
		} else {
			mux.Handle(path, h)
		}
	}
	for _, n := range o.Notes {
		if err := chain.GenericAPIServer.AddReadyzChecks(n.check()); err != nil {
			return nil, nil, fmt.Errorf("assembling the API server: %w", err)
		}
	}
	return chain, documents, nil
}

// waitReady polls /readyz until it succeeds, the server ends or ctx is cancelled.
func (s *Server) waitReady(ctx context.Context) error {
	client := &http.Client{Transport: s.ControllerManagerConfig().Transport}
	var last error
	err := wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		select {
		case <-s.done:
			return false, errors.Join(errors.New("the API server ended before it was ready"), s.err)
		case <-s.gaveUp:
			return false, fmt.Errorf("the API server did not become ready: %w", cmp.Or(s.damage.found(), errGaveUp))
		default:
		}
		if err := s.damage.lasting(); err != nil {
			return false, fmt.Errorf("the API server did not become ready: %w", err)
		}
		last = getOK(ctx, client, inProcessHost+"/readyz")
		return last == nil, nil
	})
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("waiting for the API server: %w (last answer: %v)", context.Cause(ctx), last)
	}
	return err
}

func getOK(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // read only for its status
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s", http.StatusText(resp.StatusCode))
	}
	return nil
}
