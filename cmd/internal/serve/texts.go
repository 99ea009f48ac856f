package serve

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
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
		return nil, failed("settings", "zone: %v", err)
	}
	answer := struct {
		Times []int64        `json:"times"`
		Wrong map[int]string `json:"wrong"`
		Doubt string         `json:"doubt"`
		First string         `json:"first"`
	}{make([]int64, len(request.Times)), map[int]string{}, "", ""}
	answer.Doubt, answer.First = times.DoubtOf(request.Times[:min(len(request.Times), firstTimes)])
	var folds times.Folds
	for i, text := range request.Times {
		key := ""
		if i < len(request.Keys) {
			key = strconv.Itoa(request.Keys[i])
		}
		t, err := readTime(p, &folds, key, text)
		if answer.Times[i] = t; err != nil {
			answer.Wrong[i] = err.Error()
		}
	}
	return jsonOf(answer), nil
}

// firstTimes is the number of times that show a doubt about all.
const firstTimes = 100

// readTime reads a time of a key. It returns none for an empty text, and with an error. folds resolves local times that
// occur twice; an empty key does not need it.
func readTime(p *times.Parser, folds *times.Folds, key, text string) (int64, error) {
	if text == "" {
		return none, nil
	}
	t, err := p.ParseLocal(text)
	if err != nil { // the caller has no time_format
		reason, _, _ := strings.Cut(err.Error(), ", or set time_format")
		reason, _, _ = strings.Cut(reason, ": if it is a Unix time")
		return none, errors.New(reason)
	}
	if key != "" && t.Location() != time.UTC {
		t = folds.Resolve(key, t)
	}
	ns := nanoseconds(t)
	if ns == none {
		err = fmt.Errorf("the time %s is outside of the years 1678 to 2261", message.Quote(text))
	}
	return ns, err
}

// readTimes reads the texts of times.
func (b *batch) readTimes(p *times.Parser) {
	var folds times.Folds
	b.times, b.wrong = make([]byte, 0, 8*len(b.timeTexts)), map[int]string{}
	for _, part := range b.parts {
		for i := part.start; i < part.end; i++ {
			t, err := readTime(p, &folds, part.key, string(b.timeTexts[i]))
			if b.times = binary.LittleEndian.AppendUint64(b.times, uint64(t)); err != nil {
				b.wrong[i] = err.Error()
			}
		}
	}
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
