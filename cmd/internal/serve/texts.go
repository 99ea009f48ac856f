package serve

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"

	"hafvf/internal/message"
	"hafvf/internal/times"
)

// readTimes answers a frame of times.
func readTimes(payload []byte) ([]byte, error) {
	var request struct {
		Zone  string   `json:"zone"`
		Times []string `json:"times"`
		Keys  []int    `json:"keys"`
	}
	if err := json.Unmarshal(payload, &request); err != nil {
		return nil, failed("frame", "times: %v", err)
	}
	p, err := times.NewParser(request.Zone, "")
	if err != nil {
		return nil, failed("settings", "%v", err)
	}
	answer := struct {
		Times []int64        `json:"times"`
		Wrong map[int]string `json:"wrong"`
	}{make([]int64, len(request.Times)), map[int]string{}}
	var folds times.Folds
	for i, text := range request.Times {
		if answer.Times[i] = none; text == "" {
			continue
		}
		t, err := p.ParseLocal(text)
		if err == nil && t.Location() != time.UTC && i < len(request.Keys) {
			t = folds.Resolve(strconv.Itoa(request.Keys[i]), t)
		}
		if answer.Times[i] = nanoseconds(t); err == nil && answer.Times[i] == none {
			err = fmt.Errorf("the time %s is outside of the years 1678 to 2261", message.Quote(text))
		}
		if err != nil {
			answer.Times[i], answer.Wrong[i] = none, err.Error()
		}
	}
	return jsonOf(answer), nil
}

// readYAML answers a frame of YAML.
func readYAML(payload []byte) ([]byte, error) {
	var n yaml.Node
	if err := yaml.Unmarshal(payload, &n); err != nil {
		return nil, failed("settings", "%v", err)
	}
	var v any
	if keepTimes(&n); !n.IsZero() {
		if err := n.Decode(&v); err != nil {
			return nil, failed("settings", "%v", err)
		}
	}
	b, err := json.Marshal(v)
	if err != nil { // JSON has no keys that are not texts, and no infinite numbers
		return nil, failed("settings", "%v", err)
	}
	return b, nil
}

// keepTimes turns YAML timestamps into texts, unchanged: times in settings are local times, or have a zone of their
// own.
func keepTimes(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!timestamp" {
		n.Tag = "!!str"
	}
	for _, c := range n.Content {
		keepTimes(c)
	}
}
