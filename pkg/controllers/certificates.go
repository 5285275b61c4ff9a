package controllers

import (
	"context"
	"crypto/tls"
	"fmt"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/kubernetes/pkg/controller/certificates/approver"
	"k8s.io/kubernetes/pkg/controller/certificates/cleaner"
	"k8s.io/kubernetes/pkg/controller/certificates/signer"
)

// signedFor is the longest validity of a signed certificate, as in kube-controller-manager. Requests may ask for less.
const signedFor = 365 * 24 * time.Hour

// newCSRApproving approves the requests of kubelets for client certificates.
func newCSRApproving(_ context.Context, p parts) (run, error) {
	requests := p.caches.certificates().CertificateSigningRequests()
	return onFirst(p, requests.Informer(), func(ctx context.Context) (run, error) {
		return withWorkers(approver.NewCSRApprovingController(ctx, p.client, requests).Run), nil
	})
}

// newCSRSigning signs approved requests. There is no signer for kubernetes.io/legacy-unknown, which certificates.k8s.io/v1
// does not accept.
func newCSRSigning(_ context.Context, p parts) (run, error) {
	requests := p.caches.certificates().CertificateSigningRequests()
	return onFirst(p, requests.Informer(), func(ctx context.Context) (run, error) {
		// Before any signer is created: creating one adds handlers to the informer, which stay if a later one fails.
		for _, a := range []Authority{p.keys.ClientCA, p.keys.ServerCA} {
			if err := a.check(); err != nil {
				return nil, err
			}
		}
		var signers []*signer.CSRSigningController
		for _, s := range []struct {
			name string
			by   Authority
		}{
			{certificatesv1.KubeAPIServerClientSignerName, p.keys.ClientCA},
			{certificatesv1.KubeAPIServerClientKubeletSignerName, p.keys.ClientCA},
			{certificatesv1.KubeletServingSignerName, p.keys.ServerCA},
		} {
			c, err := signer.NewCSRSigningController(ctx, "csrsigning", s.name, p.client, requests, s.by.Cert, s.by.Key, signedFor)
			if err != nil {
				return nil, err
			}
			signers = append(signers, c)
		}
		return func(ctx context.Context) {
			var joined sync.WaitGroup
			for _, s := range signers {
				joined.Go(func() { s.Run(ctx, workers) })
			}
			joined.Wait()
		}, nil
	})
}

// check returns an error unless Kubernetes' signer takes the files.
func (a Authority) check() error {
	certs, err := certutil.CertsFromFile(a.Cert)
	if err != nil {
		return fmt.Errorf("reading the certificate to sign with: %w", err)
	}
	if len(certs) != 1 {
		return fmt.Errorf("reading the certificate to sign with: %s holds %d, and has to hold the certificate of the key alone; "+
			"see docs/certificates.md, Authorities", a.Cert, len(certs))
	}
	if _, err := tls.LoadX509KeyPair(a.Cert, a.Key); err != nil {
		return fmt.Errorf("reading the certificate to sign with, %s, and its key: %w", a.Cert, err)
	}
	return nil
}

// newCSRCleaner deletes requests that are old: an hour after their approval, a day without one.
func newCSRCleaner(_ context.Context, p parts) (run, error) {
	requests := p.caches.certificates().CertificateSigningRequests()
	return onFirst(p, requests.Informer(), func(context.Context) (run, error) {
		c := cleaner.NewCSRCleanerController(p.client.CertificatesV1().CertificateSigningRequests(), requests)
		return func(ctx context.Context) { c.Run(ctx, 1) }, nil
	})
}
