package intact

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// stored returns a value as the API server stores it.
func stored(t *testing.T, apiVersion, kind string, o interface{ Marshal() ([]byte, error) }) []byte {
	t.Helper()
	raw, err := o.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	envelope, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: apiVersion, Kind: kind}, Raw: raw}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte("k8s\x00"), envelope...)
}

// TestDamageBehindTheMetadataIsFound: also where the framing of the outermost fields is whole.
func TestDamageBehindTheMetadataIsFound(t *testing.T) {
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, Resources: []string{"pods"}}}}
	for name, c := range map[string]struct {
		value []byte
		fails bool
	}{
		"whole":            {stored(t, "rbac.authorization.k8s.io/v1", "ClusterRole", role), false},
		"managedFields":    {stored(t, "v1", "Pod", &corev1.Pod{ObjectMeta: managed(`{"f:spec":x}`)}), true},
		"of another's":     {stored(t, "example.com/v1", "Thing", &metav1.PartialObjectMetadata{ObjectMeta: managed(`{"f:spec":x}`)}), true},
		"of another's, ok": {stored(t, "example.com/v1", "Thing", &metav1.PartialObjectMetadata{ObjectMeta: managed(owned)}), false},
		"JSON":             {[]byte(`{"kind":"Thing"}`), false},
	} {
		if err := Value(c.value); (err != nil) != c.fails {
			t.Errorf("%s: %v", name, err)
		}
	}
	value := stored(t, "rbac.authorization.k8s.io/v1", "ClusterRole", role)
	found := false
	for i := len(value) - 12; i < len(value); i++ { // within the rule
		damaged := append([]byte(nil), value...)
		damaged[i] ^= 0x40
		found = found || Value(damaged) != nil
	}
	if !found {
		t.Error("no damage within a rule is found")
	}
}
