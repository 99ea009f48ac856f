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
	var asked struct {
		Zone  string   `json:"zone"`
		Times []string `json:"times"`
		Keys  []int    `json:"keys"`
	}
	if err := json.Unmarshal(payload, &asked); err != nil {
		return nil, failed("frame", "times: %v", err)
	}
	p, err := times.NewParser(asked.Zone, "")
	if err != nil {
		return nil, failed("settings", "%v", err)
	}
	read := struct {
		Times []int64        `json:"times"`
		Wrong map[int]string `json:"wrong"`
	}{make([]int64, len(asked.Times)), map[int]string{}}
	var folds times.Folds
	for i, text := range asked.Times {
		if read.Times[i] = none; text == "" {
			continue
		}
		t, err := p.ParseLocal(text)
		if err == nil && t.Location() != time.UTC && i < len(asked.Keys) {
			t = folds.Resolve(strconv.Itoa(asked.Keys[i]), t)
		}
		if read.Times[i] = nanoseconds(t); err == nil && read.Times[i] == none {
			err = fmt.Errorf("the time %s is outside of the years 1678 to 2261", message.Quote(text))
		}
		if err != nil {
			read.Times[i], read.Wrong[i] = none, err.Error()
		}
	}
	return jsonOf(read), nil
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
	if err != nil { // a mapping may have keys that are no texts, or a number that JSON has not
		return nil, failed("settings", "%v", err)
	}
	return b, nil
}

// keepTimes makes texts of times, as they stand: those of settings have no clock, or a zone of their own.
func keepTimes(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!timestamp" {
		n.Tag = "!!str"
	}
	for _, c := range n.Content {
		keepTimes(c)
	}
}
