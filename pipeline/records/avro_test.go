package records

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/avro"

	"hafvf/connectors/registry"
	"hafvf/hafvf/incidents"
	"hafvf/internal/testing/expect"
)

// readAvro encodes a line by a schema, and returns the decoded fields that are not null. Times are in nanoseconds.
func readAvro(t *testing.T, schema string, line []byte) any {
	t.Helper()
	b, err := registry.Encode(schema)(nil, line)
	if err != nil {
		t.Fatalf("%s\n%s\n%v", line, schema, err)
	}
	var v any
	if rest, err := avro.MustParse(schema).Decode(b, &v); err != nil || len(rest) > 0 {
		t.Fatal(err, rest)
	}
	return withoutNulls(v)
}

// withoutNulls returns a value without null fields. Times and numbers are as in JSON.
func withoutNulls(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, e := range v {
			if e != nil {
				out[name] = withoutNulls(e)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = withoutNulls(e)
		}
		return out
	case int64:
		return float64(v)
	case time.Time:
		return v.Format(time.RFC3339Nano)
	}
	return v
}

func inJSONOf(t *testing.T, line []byte) any {
	t.Helper()
	var v any
	expect.OK(t, json.Unmarshal(line, &v))
	return withoutNulls(v)
}

// TestAvroIsTheJSON checks that a record has the same fields in Avro as in JSON, in every layout, and that the
// schemas of all layouts can read each other's records.
func TestAvroIsTheJSON(t *testing.T) {
	for name, cfg := range layouts {
		for _, brief := range []bool{false, true} {
			l := expect.Get(NewLayout(cfg))(t)
			l.Interval, l.Events, l.Brief = true, true, brief
			bank := expect.Get(cfg.NewBank())(t)
			outputs := bank.Model().Outputs()
			for _, smoother := range []string{"passes", "segments", "trials"} {
				l.Passes, l.Trials = smoother == "passes", smoother == "trials"
				l.Segments, l.Revises = !l.Passes, !l.Passes
				lines := populated(&l, outputs, Object)
				for kind, schema := range map[string]string{"estimate": l.EstimateSchema(), "alert": l.AlertSchema(), "smoothed": l.SmoothedSchema()} {
					expect.Same(t, inJSONOf(t, lines[kind]), readAvro(t, schema, lines[kind]), name, ", ", brief, ", ", kind)
				}
			}
			full := l
			full.Brief, full.Interval, full.Events = false, false, false
			for _, pair := range [][2]string{{l.EstimateSchema(), full.EstimateSchema()}, {l.AlertSchema(), full.AlertSchema()}, {l.SmoothedSchema(), full.SmoothedSchema()}} {
				a, b := avro.MustParse(pair[0]), avro.MustParse(pair[1])
				for _, err := range []error{avro.CheckCompatibility(a, b), avro.CheckCompatibility(b, a)} {
					if err != nil {
						t.Errorf("%s: %v", name, err)
					}
				}
			}
		}
	}
}

// TestAvroOfShapes checks observations of any shape, valid or not.
func TestAvroOfShapes(t *testing.T) {
	l := expect.Get(NewLayout(layouts["scalar"]))(t)
	for _, x := range []string{"1.5", "null", "[1,2]", "[1,null]", "[[1],[2,3]]", "[]", "1e300", "12345678901234567890"} {
		line := fmt.Appendf(nil, `{"key":"k","time":"0001-01-01T00:00:00.123456789Z","n":9007199254740993,"x":%s,"predicted":{"mean":0.1,"sd":null}}`, x)
		b := expect.Get(registry.Encode(l.EstimateSchema())(nil, line))(t)
		var got map[string]any
		expect.Get(avro.MustParse(l.EstimateSchema()).Decode(b, &got))(t)
		var want any
		expect.OK(t, json.Unmarshal([]byte(x), &want))
		if diff := cmp.Diff(want, got["x"]); diff != "" || got["n"] != int64(9007199254740993) || got["time"].(time.Time).Nanosecond() != 123456000 {
			t.Errorf("x %s: n %v, time %v (-want +got)\n%s", x, got["n"], got["time"], diff)
		}
	}
}

// TestAvroOfIncidents checks that the schema of alerts also fits incidents, digests and labels, and that the dead
// letter has its own schema.
func TestAvroOfIncidents(t *testing.T) {
	l := expect.Get(NewLayout(layouts["bank, detection"]))(t)
	l.Incidents = true
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	event := &incidents.Event{
		ID: "i", State: incidents.Closed, Time: start, Start: start, End: start, Group: "g", Keys: 3, NumMembers: 1, Page: true, MergedInto: "j", Score: 4.5, Expected: .5, Message: "m",
		Members: []incidents.Member{{Key: "k", Time: start, Score: 2, Size: -1, P: .5, Episode: &incidents.Episode{ID: "k/1", UsualMean: []float64{1}, UsualSD: []float64{2}, Worst: incidents.Worst{Time: start, Value: 3, Size: 4}}}},
	}
	digest := &incidents.Digest{Every: time.Hour, From: start, To: start, Alarms: []incidents.Alarm{{Key: "k", Time: start, Kind: "novelty", ID: "k/1", Score: 3.5, Size: 2}}}
	for schema, lines := range map[string][][]byte{
		l.AlertSchema(): {
			l.AppendIncident(nil, Object, event, event.Labels, map[string]string{"severity": "page"}),
			l.AppendDigest(nil, Object, digest, nil),
			populated(&l, 1, Object)["alert"],
		},
		RejectSchema(): {
			AppendReject(nil, SourcePlace{ID: "in-0-7", Log: "in-0", Seq: 7}, "raw\x00", "why"),
			AppendReject(nil, SourcePlace{ID: "in.csv:7"}, "raw", "why"),
		},
	} {
		for _, line := range lines {
			expect.Same(t, inJSONOf(t, line), readAvro(t, schema, line), "(-JSON +Avro)")
		}
	}
}
