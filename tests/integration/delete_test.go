package integration

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/reap-dev/reap/pkg/gc/report"
)

// TestDeleteFollowsTheCascadeToItsEnd: not before somebody has said yes.
func TestDeleteFollowsTheCascadeToItsEnd(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "deleted")
	o := s.create(t, configMaps, ns, "owner")
	s.createMany(t, 30, configMaps, ns, "dependent", owner(o))
	s.barrier(t, configMaps, ns)
	for _, refused := range []struct {
		code int
		says string
		args []string
	}{
		{2, "--yes", []string{"cm/owner"}},
		{2, "TYPE/NAME", []string{"--yes"}},
		{2, "did you mean foreground", []string{"cm/owner", "--yes", "--cascade=forground"}},
		{1, `"nobody"`, []string{"cm/owner", "cm/nobody", "--yes"}},
		{1, "nothings", []string{"cm/owner", "nothings/owner", "--yes"}},
	} {
		out, errs, code := s.run(t, append([]string{"delete", "-n", ns}, refused.args...)...)
		if code != refused.code || out != "" || !strings.Contains(errs, refused.says) || !strings.Contains(errs, "nothing was") && code == 1 {
			t.Errorf("reap delete %q: exit code %d, %s%s", refused.args, code, out, errs)
		}
	}
	if n := s.count(t, configMaps, ns); n != 31 {
		t.Fatalf("%d objects are left of 31", n)
	}
	out, errs, code := s.run(t, "delete", "configmaps/owner", "-n", ns, "--yes", "--limit", "3", "-o", "json")
	if n := s.count(t, configMaps, ns); n != 0 || code != 0 || !strings.Contains(errs, s.URL) || !strings.Contains(errs, "31 objects would be deleted") {
		t.Fatalf("exit code %d, %d objects are left, %s", code, n, errs)
	}
	var d report.Deleted
	fromJSON(t, out, &d)
	if d.Version != report.DeletedVersion || d.Gone != 31 || d.Left != 0 || len(d.Requested) != 1 || d.Requested[0].UID != o.GetUID() || d.Policy != "Background" {
		t.Errorf("%+v", d)
	}
}

// TestInterruptedDeleteGoesOn: Ctrl-C ends the wait alone, and says who holds the cascade up.
func TestInterruptedDeleteGoesOn(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "interrupted")
	o := s.create(t, configMaps, ns, "owner")
	held := s.createHeld(t, secrets, ns, "held", owner(o))
	late := s.create(t, configMaps, ns, "late", owner(held))
	s.barrier(t, configMaps, ns)
	s.awaitKnown(t, secrets, held)
	cmd := reap([]string{"HOME=" + t.TempDir()}, "delete", "cm/owner", "-n", ns, "--yes", "--data-dir", s.dir, "--config=")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.awaitDeleting(t, secrets, held)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 130 || !strings.Contains(errs.String(), "the cascade goes on") || !strings.Contains(errs.String(), "reap status --watch") {
		t.Errorf("%v, %s%s", err, &out, &errs)
	}
	if there, err := s.exists(t.Context(), configMaps, late); err != nil || !there {
		t.Errorf("%v, %v", there, err)
	}
	s.release(t, secrets, held)
	s.awaitGone(t, configMaps, late)
}

// The user has rights on one of two resources. The command deletes what it may, and reports the refused objects and the
// resources that it could not list.
func TestDeleteReportsObjectsTheUserMayNotDelete(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "rights")
	s.create(t, configMaps, ns, "mine")
	kept := s.create(t, secrets, ns, "not-mine")
	role, err := s.kube.RbacV1().Roles(ns).Create(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "some"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "delete"}},
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	all, err := s.kube.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "reader-"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps", "secrets"}, Verbs: []string{"list", "watch"}},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.kube.RbacV1().ClusterRoles().Delete(context.Background(), all.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	user := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: "User", Name: "some-" + ns}
	if _, err := s.kube.RbacV1().RoleBindings(ns).Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "some"},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name}, Subjects: []rbacv1.Subject{user}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.kube.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: all.Name, OwnerReferences: []metav1.OwnerReference{{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: all.Name, UID: all.UID}}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: all.Name}, Subjects: []rbacv1.Subject{user}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := clientcmd.LoadFromFile(s.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range kubeconfig.AuthInfos {
		u.Impersonate = user.Name
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*kubeconfig, path); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	await(t, "the rights to be known", func(context.Context) (bool, any) {
		cmd := reap([]string{"HOME=" + t.TempDir()}, "plan", "delete", "configmaps/mine", "secrets/not-mine", "-n", ns, "--kubeconfig", path, "--config=")
		out, err := cmd.CombinedOutput()
		return err == nil, string(out)
	})
	cmd := reap([]string{"HOME=" + t.TempDir()}, "delete", "configmaps/mine", "secrets/not-mine", "-n", ns, "--yes", "-o", "json", "--kubeconfig", path, "--config=")
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != 1 {
		t.Fatalf("%v: %s%s", err, &out, &errs)
	}
	var d report.Deleted
	fromJSON(t, out.String(), &d)
	if len(d.Requested) != 1 || d.Requested[0].Name != "mine" || len(d.Failed) != 1 || d.Failed[0].Object.UID != kept.GetUID() || d.Left != 1 {
		t.Errorf("%+v", d)
	}
	for _, says := range []string{"incomplete", "you may not ask the collector", "forbidden", "secrets/not-mine"} {
		if !strings.Contains(errs.String(), says) {
			t.Errorf("it does not say %q:\n%s", says, &errs)
		}
	}
}
