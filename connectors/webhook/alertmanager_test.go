package webhook

import (
	"encoding/json"
	"testing"

	"hafvf/internal/testing/expect"
)

// An alert has the labels of its series, also those with reserved names, and the labels of its record. An incident
// has only the labels of its record. A key that is not a series adds no labels.
func TestLabelsOfSeries(t *testing.T) {
	for _, c := range []struct {
		record string
		names  []string
		want   map[string]string
	}{
		{`{"key":"up{job=\"a\",kind=\"b\",team=\"c\"}","kind":"novelty","labels":{"team":"d"}}`, nil,
			map[string]string{"alertname": "hafvf", "key": `up{job="a",kind="b",team="c"}`, "kind": "novelty", "metric": "up", "job": "a", "exported_kind": "b", "team": "d"}},
		{`{"key":"a/b","kind":"change"}`, []string{"job", "instance"}, map[string]string{"alertname": "hafvf", "key": "a/b", "kind": "change", "job": "a", "instance": "b"}},
		{`{"key":"pump-1","kind":"change"}`, nil, map[string]string{"alertname": "hafvf", "key": "pump-1", "kind": "change"}},
		{`{"key":"job=\"a\"","kind":"incident","id":"i","labels":{"job":"a","kind":"b"}}`, nil,
			map[string]string{"alertname": "hafvf", "key": "", "kind": "incident", "id": "i", "job": "a", "exported_kind": "b"}},
		{`{"key":"up{job=\"a\"","kind":"incident","id":"i"}`, nil, map[string]string{"alertname": "hafvf", "key": "", "kind": "incident", "id": "i"}},
	} {
		b := expect.Get(forAlertmanager(Sink{Key: c.names}, []byte(c.record)))(t)
		var got alertmanagerAlert
		expect.OK(t, json.Unmarshal(b, &got))
		expect.Same(t, c.want, got.Labels, c.record)
	}
}
