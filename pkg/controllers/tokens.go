package controllers

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/serviceaccount"
	tokens "k8s.io/kubernetes/pkg/serviceaccount"
)

// newServiceAccountToken fills the Secrets that ask for a service account's token, and deletes them with their service
// account.
func newServiceAccountToken(_ context.Context, p parts) (run, error) {
	secrets := p.caches.secrets(corev1.SecretTypeServiceAccountToken)
	accounts := p.caches.core().ServiceAccounts()
	accounts.Informer() // asked for before the start
	return onFirst(p, secrets.Informer(), func(ctx context.Context) (run, error) {
		key, err := keyutil.PrivateKeyFromFile(p.keys.ServiceAccountKey)
		if err != nil {
			return nil, fmt.Errorf("reading the key that signs tokens: %w", err)
		}
		generator, err := tokens.JWTTokenGenerator(tokens.LegacyIssuer, key)
		if err != nil {
			return nil, err
		}
		c, err := serviceaccount.NewTokensController(klog.FromContext(ctx), accounts, secrets, p.client,
			serviceaccount.TokensControllerOptions{TokenGenerator: generator, RootCA: p.rootCA})
		if err != nil {
			return nil, err
		}
		return withWorkers(c.Run), nil
	})
}
