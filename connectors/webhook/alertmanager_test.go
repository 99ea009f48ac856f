package webhook

import (
	"encoding/json"
	"testing"

	"hafvf/internal/testing/expect"
)

// An alert has the labels of its series, also of the names that every alert has, and those of the
// receiver. Of a key that is no series, and of the group of an incident, there are none.
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
		{`{"key":"up{job=\"a\"","kind":"incident","id":"i"}`, nil, map[string]string{"alertname": "hafvf", "key": "", "kind": "incident", "id": "i"}},
	} {
		b := expect.Get(forAlertmanager(Sink{Key: c.names}, []byte(c.record)))(t)
		var got alertmanagerAlert
		expect.OK(t, json.Unmarshal(b, &got))
		expect.Same(t, c.want, got.Labels, c.record)
	}
}
