package fault

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reap-dev/reap/tests/fakeapi/rig"
)

func TestBubbleTry(t *testing.T) {
	rig.InBubble(t, func(t *testing.T, r *rig.Rig) {
		w := populate(t, r)
		w.Start(nil)
		w.delete("doomed", metav1.DeletePropagationBackground)
		w.wantEnd()
	})
}
