// Package intact finds damage in stored objects that decoding them does not find.
//
// Objects hold fields of raw JSON. A protobuf decoder takes whatever bytes they have; the JSON encoder refuses them. A LIST
// meets the error after it has sent a part of its answer.
package intact

import (
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
)

// Check returns an error that names the first field of raw JSON in a decoded object that is not JSON. It looks at
// managedFields, and at the data of a ControllerRevision.
func Check(o runtime.Object) error {
	if m, err := meta.Accessor(o); err == nil {
		fields := m.GetManagedFields()
		for i := range fields {
			if err := JSON(fields[i].FieldsV1.GetRawBytes()); err != nil {
				return fmt.Errorf("metadata.managedFields[%d].fieldsV1: %w", i, err)
			}
		}
	}
	if r, ok := o.(*appsv1.ControllerRevision); ok {
		if err := JSON(r.Data.Raw); err != nil {
			return fmt.Errorf("data: %w", err)
		}
	}
	return nil
}

// JSON returns an error if raw is neither empty nor JSON.
func JSON(raw []byte) error {
	if len(raw) == 0 || json.Valid(raw) {
		return nil
	}
	var value json.RawMessage
	return fmt.Errorf("not JSON: %w", json.Unmarshal(raw, &value))
}
