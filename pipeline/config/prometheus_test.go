package config

import (
	"strings"
	"testing"
	"time"

	"hafvf/connectors/promio"
	"hafvf/internal/testing/expect"
)

const someQuery = `source: {prometheus: {url: "http://p:9090", query: up`

func TestPrometheusKeys(t *testing.T) {
	c, err := Parse("c.yaml", []byte("model: {family: normal}\ndetect: true\n"+someQuery+", start: -2w, key: [job, instance]}}\nsink: {prometheus: {url: {env: SOME_URL}}}\nalerts: {alertmanager: {url: \"http://a\"}}\n"), nil)
	expect.OK(t, err)
	p := c.Source.Prometheus()
	if p.Ago != 14*24*time.Hour || p.Step != time.Minute || p.Delay != time.Minute || p.Lookback != 5*time.Minute || p.MaxSeries != 10_000 || p.Bounded || p.Partial != promio.Wait {
		t.Errorf("%+v", p)
	}
	if c.Expire != 90*24*time.Hour || c.Alerts[0].MaxAge != defaultMaxAge {
		t.Errorf("expire %v, max_age %v: the source has no end", c.Expire, c.Alerts[0].MaxAge)
	}
	if want := "job instance"; strings.Join(c.Sink.Prometheus.Key, " ") != want || strings.Join(c.Alerts[0].Webhook.Key, " ") != want {
		t.Errorf("sink and receiver do not know the labels of keys")
	}
	c, err = Parse("c.yaml", []byte("model: {family: normal}\n"+someQuery+", start: 2026-01-02T03:04:05Z, bounded: true, lookback: 90s}}\n"), nil)
	expect.OK(t, err)
	if lookback := c.Filter().Lookback; lookback != 90*time.Second {
		t.Errorf("the filters have a lookback of %v", lookback)
	}
	if c.Expire != 0 || !c.Source.Prometheus().Start.Equal(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) {
		t.Errorf("expire %v, start %v", c.Expire, c.Source.Prometheus().Start)
	}
}

func TestPrometheusMistakes(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"source: {prometheus: {query: up}}", "c.yaml:3: source.prometheus.url: missing; it is required"},
		{`source: {prometheus: {url: "http://p"}}`, "c.yaml:3: source.prometheus.query: missing; it is required"},
		{someQuery + ", start: yesterday}}", "c.yaml:3: source.prometheus.start: must be a time such as 2026-01-02T03:04:05Z, or how long ago, such as -14d"},
		{someQuery + ", start: 14d}}", "source.prometheus.start: must be a time"},
		{someQuery + ", step: 0s}}", "source.prometheus.step"},
		{someQuery + ", lookback: 0s}}", "source.prometheus.lookback: must be a number of milliseconds above zero, not 0s"},
		{someQuery + ", lookback: -5m}}", "source.prometheus.lookback: must not be negative, not -5m"},
		{someQuery + ", lookback: 1500us}}", "source.prometheus.lookback: must be of whole milliseconds, not 1500us"},
		{someQuery + ", lookback: none}}", "source.prometheus.lookback: must be"},
		{someQuery + ", partial: tak}}", `source.prometheus.partial: unknown value "tak"; did you mean "take"?`},
		{someQuery + ", username: u}}", "source.prometheus.username: needs password"},
		{someQuery + ", password: {env: P}}}", "source.prometheus.password: needs username"},
		{someQuery + ", password: secret}}", "source.prometheus.password: secrets are not allowed in a config"},
		{someQuery + ", tls: {}}}", "source.prometheus.tls: is for a url of https://"},
		{someQuery + "}}\nrunner: {name: flink, endpoint: \"f:8099\"}\nsink: none", "source.prometheus: is for the runner direct"},
		{someQuery + "}}\nsink: {parquet: {path: a.parquet}}", "is complete only at its end"},
		{someQuery + "}}\nsink: {prometheus: {url: \"http://p\"}}\ndetect: false", "sink.prometheus: there are no scores without detect"},
		{someQuery + "}}\nsink: {prometheus: {url: \"ftp://p\"}}", "sink.prometheus.url: must be http://"},
		{someQuery + "}}\ndead_letter: {prometheus: {url: \"http://p\"}}", "dead_letter.prometheus"},
	} {
		detect := "detect: true\n"
		if strings.Contains(c.text, "detect:") {
			detect = "\n"
		}
		_, err := Parse("c.yaml", []byte("model: {family: normal}\n"+detect+c.text+"\n"), nil)
		expect.Error(t, err, c.want, c.text)
	}
}
