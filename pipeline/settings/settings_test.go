package settings

import (
	"fmt"
	"testing"
	"time"

	"hafvf/hafvf/keyed"
	"hafvf/internal/testing/expect"
	"hafvf/pipeline/records"
	"hafvf/pipeline/settings/keytable"
)

// Example shows the shortest program, and the record of an observation.
func Example() {
	s, err := Parse(&keytable.Decoder{Name: "settings.yaml"}, []byte(`{"model": {"family": "normal"}, "detect": true}`), nil, Source{})
	if err != nil {
		fmt.Println(err)
		return
	}
	cfg := s.Filter()
	est, err := keyed.NewEstimator(cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	layout, err := records.NewLayout(cfg.Filter)
	if err != nil {
		fmt.Println(err)
		return
	}
	layout.Brief = s.Records == Brief
	e := est.Estimate(est.NewTrack("pump-1"), keyed.Value(time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC), "", 2))
	fmt.Printf("%.87s…\n", layout.AppendEstimate(nil, records.Object, "pump-1", &e))
	// Output: {"key":"pump-1","time":"2026-01-05T00:00:00Z","id":"","n":1,"x":2,"predicted":{"mean":0…
}

// TestParse checks that all errors are reported with their place, as for a config. Keys of others are skipped with
// any value.
func TestParse(t *testing.T) {
	others := []string{"source", "alerts"}
	text := "model: {famly: normal, prior: auto}\nsource: {csv: 3}\nsink: none\ntop: 2\naggregate: {every: 5m, value: mean}\norder: arrival\n"
	_, err := Parse(&keytable.Decoder{Name: "a.yaml"}, []byte(text), others, Source{})
	expect.Same(t, `a.yaml:1: model.famly: unknown key; did you mean "family"?
a.yaml:1: model.family: missing; one of ar, bernoulli, binomial, categorical, exponential, mvnormal, normal, poisson, regression is required
a.yaml:3: sink: unknown key; did you mean "bank"?
a.yaml:4: top: must be in [0, 1], not 2
a.yaml:5: aggregate: intervals use the times of events: order must be event_time`, fmt.Sprint(err))

	for _, c := range []struct {
		text, want string
		source     Source
	}{
		{"model: {family: mvnormal}", "", Source{Values: []string{"a", "b"}}},
		{"model: {family: normal}", "a.yaml:1: values: names 2 columns; normal takes 1", Source{Values: []string{"a", "b"}}},
		{"model: {family: normal}", "a.yaml:1: frame.time: an empty name means that there is no time, which needs order: arrival", Source{Path: "frame"}},
		{"model: {family: normal}\nalerts: x\n", "", Source{}},
		{"model: {family: normal}\nsilense: true\n", `a.yaml:2: silense: unknown key; did you mean "silence"?`, Source{}},
	} {
		_, err := Parse(&keytable.Decoder{Name: "a.yaml"}, []byte(c.text), others, c.source)
		got := ""
		if err != nil {
			got = err.Error()
		}
		expect.Same(t, c.want, got)
	}
	s := expect.Get(Parse(&keytable.Decoder{Name: "a.yaml"}, []byte(`{"model": {"family": "normal"}, "detect": true}`), nil, Source{Zone: "Asia/Tokyo", Unbounded: true}))(t)
	expect.Same(t, "Asia/Tokyo", s.Detect.Zone)
	expect.Same(t, defaultExpire, s.Expire)
}
