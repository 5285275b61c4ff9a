package intact

import (
	"encoding/json"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const owned = `{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:image":{}}}}}`

func managed(fields string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: "name", ManagedFields: []metav1.ManagedFieldsEntry{
		{Manager: "sound", FieldsV1: metav1.NewFieldsV1(owned)},
		{Manager: "without"},
		{Manager: "looked at", FieldsV1: metav1.NewFieldsV1(fields)},
	}}
}

// TestEveryChangedByteThatJSONRefusesIsFound: Check refuses exactly the objects that cannot be encoded.
func TestEveryChangedByteThatJSONRefusesIsFound(t *testing.T) {
	refused := 0
	for i := range len(owned) {
		for _, b := range []byte{0, '"', '{', 0xff, 'x'} {
			damaged := owned[:i] + string([]byte{b}) + owned[i+1:]
			pod := &corev1.Pod{ObjectMeta: managed(damaged)}
			_, encoding := json.Marshal(pod)
			err := Check(pod)
			if (err != nil) != (encoding != nil) {
				t.Fatalf("%s: checked %v, encoded %v", damaged, err, encoding)
			}
			if err != nil {
				refused++
				if !strings.HasPrefix(err.Error(), "metadata.managedFields[2].fieldsV1: not JSON: ") {
					t.Fatal(err)
				}
			}
		}
	}
	if refused < len(owned) {
		t.Errorf("only %d of the damaged objects are refused", refused)
	}
}

func TestDataOfAControllerRevisionIsChecked(t *testing.T) {
	r := &appsv1.ControllerRevision{ObjectMeta: managed(owned), Data: runtime.RawExtension{Raw: []byte(`{"spec":{}}`)}}
	if err := Check(r); err != nil {
		t.Error(err)
	}
	r.Data.Raw[1] = 0
	if err := Check(r); err == nil || !strings.HasPrefix(err.Error(), "data: ") {
		t.Errorf("damaged data: %v", err)
	}
}

// BenchmarkCheck is of a pod with about 2 kB of managedFields.
func BenchmarkCheck(b *testing.B) {
	pod := &corev1.Pod{ObjectMeta: managed(owned)}
	for range 14 {
		pod.ManagedFields = append(pod.ManagedFields, pod.ManagedFields[0])
	}
	b.SetBytes(int64(len(owned) * 16))
	for b.Loop() {
		if err := Check(pod); err != nil {
			b.Fatal(err)
		}
	}
}
