package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"

	"hafvf/connectors/promio"
	"hafvf/internal/domain"
	"hafvf/internal/httpclient"
	"hafvf/internal/message"
	"hafvf/internal/times"
	"hafvf/pipeline/settings"
	"hafvf/pipeline/settings/keytable"
)

// Prometheus is a source that queries a server.
type Prometheus struct {
	promio.Source
	Lookback time.Duration // see keyed.Config
}

func (p *Prometheus) fields() (*Fields, string) { return nil, "" }
func (p *Prometheus) shaped() bool              { return false }
func (p *Prometheus) unbounded() bool           { return !p.Bounded }

// check gives the Prometheus sink and the receivers the labels that make the keys.
func (p *Prometheus) check(d *decoder, c *Config) {
	d.checkServer("source.prometheus", &p.Server)
	for i := range c.Alerts {
		if hook := c.Alerts[i].Webhook; hook != nil {
			hook.Key = p.Key
		}
	}
	if c.Sink.Prometheus != nil {
		c.Sink.Prometheus.Key = p.Key
	}
}

func (p *Prometheus) checkFlink(d *decoder) {
	d.Fail("source.prometheus", "is for the runner direct: flink reads topics (kafka)")
}

// Prometheus returns the source of queries, nil if the source is another.
func (s *Source) Prometheus() *Prometheus { return originOf[*Prometheus](s) }

// prometheusKeys declares a source of queries.
func (s *Source) prometheusKeys() []keytable.Key {
	p := &Prometheus{promio.Source{Server: defaultServer(), Step: time.Minute, Ago: 14 * 24 * time.Hour, Delay: time.Minute, MaxSeries: 10_000, Partial: promio.Wait}, 5 * time.Minute}
	return []keytable.Key{{Name: "prometheus", Doc: "A query to Prometheus or a server with its API: first over the past, then continuously. A point is an observation; NaN is a missing observation. With state, a run resumes where the previous run stopped. An id is key/time. It needs the runner direct.", Seen: s.set(p),
		Keys: slices.Concat(serverKeys(&p.Server, "URL of the server, in front of /api/v1/query_range."), []keytable.Key{
			{Name: "query", Doc: "The query, in PromQL.", Required: true, Read: keytable.Text(&p.Query, keytable.NotEmpty)},
			{Name: "step", Doc: "Time between the points of a series. Points are at multiples of it.", Read: keytable.Milliseconds(&p.Step)},
			{Name: "start", Doc: "Time of the first point. A state overrides it.", Initial: `"-14d"`, Read: startTime(&p.Start, &p.Ago)},
			{Name: "delay", Doc: "Age at which a point is final. It has to cover the scrape interval, the evaluation of recording rules, and the difference between the clocks of hafvf and of the server.", Read: keytable.Duration(&p.Delay)},
			{Name: "lookback", Doc: "How long the server repeats the last value of a series, its --query.lookback-delta. Equal values in a row count for an alarm only when this time has passed since the first of them.", Read: keytable.Milliseconds(&p.Lookback)},
			{Name: "key", Doc: `Labels whose values, joined with "/", make the key. By default the key is the series as Prometheus writes it: name{a="b",…}. If two series have the same key and time, the second is rejected.`, Read: keytable.Texts("labels", &p.Key)},
			{Name: "max_series", Doc: "A query that returns more series ends the run.", Read: keytable.Whole(&p.MaxSeries, 1)},
			{Name: "partial", Doc: "Handling of an answer that the server reports as partial. wait repeats the query until the answer is complete. take uses the answer and counts it in hafvf_partial_answers_total.", Read: keytable.Choice(&p.Partial, promio.Wait, promio.Take)},
			{Name: "bounded", Doc: "true ends the run after the points that are final at its start.", Read: keytable.Boolean(&p.Bounded)},
		})}}
}

func defaultServer() httpclient.Server { return httpclient.Server{Timeout: 2 * time.Minute} }

// serverKeys declares the connection to a server.
func serverKeys(s *httpclient.Server, url string) []keytable.Key {
	return []keytable.Key{
		{Name: "url", Doc: url, Required: true, Read: hookURL(&s.URL)},
		tlsKey(&s.TLS),
		{Name: "username", Doc: "Name of the user, by HTTP basic authentication. It needs password.", Read: keytable.Text(&s.Username, keytable.NotEmpty)},
		{Name: "password", Doc: "Location of the password.", Read: secretAt(&s.Password)},
		{Name: "headers", Doc: "Headers, such as {Authorization: {file: token}, X-Scope-OrgID: tenant}.", Read: headers(&s.Headers)},
		{Name: "timeout", Doc: "Maximum duration of one request.", Read: keytable.Milliseconds(&s.Timeout)},
	}
}

// startTime reads a time, or a duration before the present.
func startTime(start *time.Time, ago *time.Duration) keytable.ValueParser {
	const takes = "a time such as 2026-01-02T03:04:05Z, or how long ago, such as -14d"
	return keytable.ValueParser{Takes: takes, Read: func(d *keytable.Decoder, path string, n *yaml.Node) {
		if n.Kind == yaml.ScalarNode {
			if past, negative := strings.CutPrefix(n.Value, "-"); negative {
				if v, err := model.ParseDuration(past); err == nil {
					*ago = time.Duration(v)
					return
				}
			} else if t, err := times.Parse(n.Value); err == nil {
				*start = t
				return
			}
		}
		d.WrongType(path, takes, n)
	}}
}

// checkServer checks combinations of keys in the server at path.
func (d *decoder) checkServer(path string, s *httpclient.Server) {
	d.checkLogin(path)
	if s.TLS != nil && strings.HasPrefix(s.URL.Text, "http://") {
		d.Fail(path+".tls", "is for a url of https://")
	}
}

// prometheusKey declares a sink by remote write.
func (s *Sink) prometheusKey() keytable.Key {
	p := &promio.Sink{Server: defaultServer()}
	return keytable.Key{Name: "prometheus", Doc: "A server that accepts remote write, version 1. It gets hafvf_score, _threshold, _usual, _usual_lower and _usual_upper (two sd), and _alarm, with the labels of the key's series, or the label key. It needs detect.",
		Seen: func() { s.Prometheus = p },
		Keys: serverKeys(&p.Server, "URL of the server. The default path is the path of Prometheus, /api/v1/write.")}
}

// checkWritten refuses a Prometheus sink without scores or times.
func (d *decoder) checkWritten(c *Config) {
	p := c.Sink.Prometheus
	if p == nil {
		return
	}
	const path = "sink.prometheus"
	d.checkServer(path, &p.Server)
	switch {
	case c.Transform == settings.Smooth:
		d.Fail(path, "is for transform: filter")
	case c.Detect == nil && !d.Failed("detect"):
		d.Fail(path, "there are no scores without detect")
	}
	d.NeedTime("an empty name means that there is no time, which samples need")
}

// joinedPatterns converts patterns of labels to patterns of keys, if a query joins its keys from labels.
func (d *decoder) joinedPatterns(c *Config) {
	p := c.Source.Prometheus()
	if p == nil || len(p.Key) == 0 {
		return
	}
	join := func(path string, pattern *string) {
		labels := domain.PatternLabels(*pattern)
		if labels == nil {
			return
		}
		for _, name := range slices.Sorted(maps.Keys(labels)) {
			if !slices.Contains(p.Key, name) {
				d.Fail(path, "no key has the label %s: source.prometheus.key has %s", name, message.List(p.Key))
			}
		}
		parts := make([]string, len(p.Key))
		for i, name := range p.Key {
			parts[i] = "*"
			if value, ok := labels[name]; ok {
				parts[i] = value
			}
		}
		if *pattern = parts[0]; len(parts) > 1 {
			*pattern = domain.JoinKey(parts)
		}
	}
	for i := range c.Keys {
		join(fmt.Sprintf("keys.%d.match", i), &c.Keys[i].Match)
	}
	for i := range c.Quiet {
		join("quiet", &c.Quiet[i].Match)
	}
	for i := range c.Alerts {
		r := &c.Alerts[i]
		join(r.Path+".keys", &r.Keys)
		join(r.Path+".except", &r.Except)
	}
}
