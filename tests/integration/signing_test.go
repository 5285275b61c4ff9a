package integration

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/keyutil"
)

// request makes a CertificateSigningRequest, and returns its name and the key.
func (s *server) request(t *testing.T, as kubernetes.Interface, signer string, who pkix.Name, usages ...certificatesv1.KeyUsage) (name string, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if key, err = keyutil.MarshalPrivateKeyToPEM(private); err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: who}, private)
	if err != nil {
		t.Fatal(err)
	}
	csr, err := as.CertificatesV1().CertificateSigningRequests().Create(t.Context(), &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), SignerName: signer, Usages: usages,
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return csr.Name, key
}

// awaitSigned waits for the certificate.
func (s *server) awaitSigned(t *testing.T, name string) (cert []byte) {
	t.Helper()
	await(t, "a certificate for "+name, func(ctx context.Context) (bool, any) {
		csr, err := s.kube.CertificatesV1().CertificateSigningRequests().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		cert = csr.Status.Certificate
		return len(cert) > 0, csr.Status
	})
	return cert
}

// whoIs returns the name that the server knows a client by.
func whoIs(t *testing.T, c *rest.Config) string {
	t.Helper()
	client, err := kubernetes.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	r, err := client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r.Status.UserInfo.Username
}

// nameless returns a configuration without credentials.
func (s *server) nameless() *rest.Config { return rest.AnonymousClientConfig(s.config) }

// TestApprovedRequestIsSigned with an authority that the server trusts.
func TestApprovedRequestIsSigned(t *testing.T) {
	s := shared(t)
	name, key := s.request(t, s.kube, certificatesv1.KubeAPIServerClientSignerName, pkix.Name{CommonName: "jane"}, certificatesv1.UsageClientAuth)
	csr, err := s.kube.CertificatesV1().CertificateSigningRequests().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test",
	})
	if _, err := s.kube.CertificatesV1().CertificateSigningRequests().UpdateApproval(t.Context(), name, csr, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	c := s.nameless()
	c.CertData, c.KeyData = s.awaitSigned(t, name), key
	if got := whoIs(t, c); got != "jane" {
		t.Errorf("the certificate is %q's", got)
	}
}

// TestNodesRequestIsApproved if the node may ask for itself.
func TestNodesRequestIsApproved(t *testing.T) {
	s := shared(t)
	const node, nodesGroup = "system:node:signing", "system:nodes"
	b, err := s.kube.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "signing-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: node}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.kube.RbacV1().ClusterRoleBindings().Delete(context.Background(), b.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}()
	c := rest.CopyConfig(s.config)
	c.Impersonate = rest.ImpersonationConfig{UserName: node, Groups: []string{nodesGroup}}
	as, err := kubernetes.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	name, _ := s.request(t, as, certificatesv1.KubeAPIServerClientKubeletSignerName, pkix.Name{CommonName: node, Organization: []string{nodesGroup}},
		certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth)
	s.awaitSigned(t, name)
}

// TestTokenOfAServiceAccountGoesWithIt: a Secret that asks for a token gets one that works.
func TestTokenOfAServiceAccountGoesWithIt(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "tokens")
	sa := s.create(t, accounts, ns, "robot")
	secret := s.from(t, secrets, ns, `
apiVersion: v1
kind: Secret
metadata: {name: robot, annotations: {kubernetes.io/service-account.name: robot}}
type: kubernetes.io/service-account-token
`)
	c := s.nameless()
	// The API server may learn of the token after this test.
	await(t, "a token that works", func(ctx context.Context) (bool, any) {
		now, err := s.kube.CoreV1().Secrets(ns).Get(ctx, "robot", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		c.BearerToken = string(now.Data[corev1.ServiceAccountTokenKey])
		if c.BearerToken == "" {
			return false, now.Annotations
		}
		k, err := kubernetes.NewForConfig(c)
		if err != nil {
			return false, err
		}
		_, err = k.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		return err == nil, err
	})
	if got, want := whoIs(t, c), "system:serviceaccount:"+ns+":robot"; got != want {
		t.Errorf("the token is %q's and not %q's", got, want)
	}
	other := s.create(t, secrets, ns, "other")
	s.deleteAs(t, accounts, sa, background)
	s.awaitGone(t, secrets, secret)
	s.mustExist(t, secrets, other)
}
