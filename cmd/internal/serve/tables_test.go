package serve

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"hafvf/cmd/internal/research"
	"hafvf/internal/testing/expect"
)

// tablesOf returns the payload of a request with rows of one key, a second apart.
func tablesOf(settings, request string, values ...float64) []byte {
	const form = `{"settings":{"text":%q},"rows":%d,"request":{"keys":[["a"]],"length":1,%s}}`
	head := fmt.Sprintf(form, settings, len(values), request)
	b := appendText(nil, []byte(head))
	for range values {
		b = binary.LittleEndian.AppendUint32(b, 0)
	}
	for i := range values {
		b = binary.LittleEndian.AppendUint64(b, uint64(i)*uint64(time.Second))
	}
	for _, v := range values {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	return b
}

// A request is answered by tables. Frames of progress come before them.
func TestTables(t *testing.T) {
	c := newClient(t)
	levels := []float64{0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 50, 51, 50, 51, 50, 51, 50, 51, 50, 51}
	answer := &cursor{b: c.must('r', tablesOf("", `"do":"smooth","interval":0.95`, levels...))}
	var head research.Answer
	expect.OK(t, json.Unmarshal(answer.text(), &head))
	estimates, segments := string(answer.text()), string(answer.text())
	if len(head.Tables) != 2 || len(answer.b) > 0 || strings.Count(estimates, "\n") != len(levels) || strings.Count(segments, "\n") != 2 {
		t.Errorf("%d tables, %d bytes after them:\n%s%s", len(head.Tables), len(answer.b), estimates, segments)
	}
	expect.Same(t, 19, head.Tables[0].Rows[19])

	var out bytes.Buffer
	c.out = &out
	s := c.progress()
	time.Sleep(150 * time.Millisecond)
	s(3, 7)
	s(4, 7) // too early
	kind, payload, err := readFrame(&out)
	expect.OK(t, err)
	expect.Same(t, `p {"done":3,"total":7}`, fmt.Sprintf("%c %s", kind, payload))
	expect.Same(t, 0, out.Len())
}

func TestTablesErrors(t *testing.T) {
	c := newClient(t)
	valid := tablesOf("", `"do":"smooth","interval":0.95`, 1, 2, 3)
	for name, wrong := range map[string]struct {
		payload []byte
		want    string
	}{
		"no head":         {nil, "the head of the request"},
		"cut off":         {valid[:len(valid)-1], "cut off"},
		"too long":        {append(bytes.Clone(valid), 0), "cut off"},
		"unknown request": {tablesOf("", `"do":"x"`, 1), `unknown request "x"`},
		"settings":        {tablesOf("famly: normal", `"do":"trials"`, 1), "famly"},
		"no such key":     {bytes.Replace(valid, []byte(`[["a"]]`), []byte(`[     ]`), 1), "row 0 has the key 0 of 0"},
		"column":          {tablesOf("", `"do":"trials","columns":{"b":["1"]}`, 1, 2), "the column b has 1 rows of 2"},
		"no column":       {tablesOf("order: arrival\nsession: {by: b}", `"do":"smooth","interval":0.5`, 1, 2), "there is no column"},
		"fit":             {tablesOf("model: {family: poisson}", `"do":"fit","over":"levels[9].alpha"`, 1), "there is no levels[9].alpha"},
		"labels":          {tablesOf("detect: true", `"do":"backtest","labels":"key"`, 1), "labels: the header"},
		"no detection":    {tablesOf("", `"do":"backtest"`, 1), "no alarms without detect"},
	} {
		expect.Error(t, fmt.Errorf("%s", c.mustFail(appendFrame(nil, 'r', wrong.payload)).Text), wrong.want, name)
	}
}
