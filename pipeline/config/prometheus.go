package config

import (
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"

	"hafvf/connectors/promio"
	"hafvf/internal/httpclient"
	"hafvf/internal/times"
)

// Prometheus is a source that asks a server.
type Prometheus struct {
	promio.Source
	Lookback time.Duration // see keyed.Config
}

func (p *Prometheus) fields() (*Fields, string) { return nil, "" }
func (p *Prometheus) shaped() bool              { return false }
func (p *Prometheus) unending() bool            { return !p.Bounded }

// check tells the sink of series and receivers of the labels of keys.
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
	d.fail("source.prometheus", "is for the runner direct: flink reads topics, kafka")
}

// Prometheus is what the source asks of a server, nil if it asks none.
func (s *Source) Prometheus() *Prometheus { return originOf[*Prometheus](s) }

// prometheusKeys declare a source that asks a server.
func (s *Source) prometheusKeys() []key {
	p := &Prometheus{promio.Source{Server: defaultServer(), Step: time.Minute, Ago: 14 * 24 * time.Hour, Delay: time.Minute, MaxSeries: 10_000, Partial: promio.Wait}, 5 * time.Minute}
	return []key{{name: "prometheus", doc: "A query to Prometheus or what has its API: first over the past, then on and on. A point is an observation, NaN a missing one. With state a run goes on where the one before has stopped. An id is key/time. It needs the runner direct.", seen: s.set(p),
		keys: slices.Concat(serverKeys(&p.Server, "URL of the server, in front of /api/v1/query_range."), []key{
			{name: "query", doc: "The query, in PromQL.", required: true, read: text(&p.Query, notEmpty)},
			{name: "step", doc: "Time between the points of a series. Points are at multiples of it.", read: milliseconds(&p.Step)},
			{name: "start", doc: "Time of the first point. A state says more.", initial: `"-14d"`, read: since(&p.Start, &p.Ago)},
			{name: "delay", doc: "Age at which a point is final: the scrape, the rules that make the series, and the difference of both clocks.", read: duration(&p.Delay)},
			{name: "lookback", doc: "For how long the server repeats the last value of a series, its --query.lookback-delta. Equal values in a row count for an alarm only from so long after the first of them on.", read: milliseconds(&p.Lookback)},
			{name: "key", doc: `Labels whose values, joined with "/", make the key. By default the key is the series as Prometheus writes it: name{a="b",…}. Of two series with one key and time the second is rejected.`, read: texts("labels", &p.Key)},
			{name: "max_series", doc: "A query that returns more series ends the run.", read: whole(&p.MaxSeries, 1)},
			{name: "partial", doc: "What becomes of an answer that is not whole, as the server says. wait asks until it is; take takes it, and counts it as hafvf_partial_answers_total.", read: choice(&p.Partial, promio.Wait, promio.Take)},
			{name: "bounded", doc: "true ends the run at what is final at the start.", read: boolean(&p.Bounded)},
		})}}
}

func defaultServer() httpclient.Server { return httpclient.Server{Timeout: 2 * time.Minute} }

// serverKeys declare how to reach a server.
func serverKeys(s *httpclient.Server, url string) []key {
	return []key{
		{name: "url", doc: url, required: true, read: hookURL(&s.URL)},
		tlsKey(&s.TLS),
		{name: "username", doc: "Name of the user, by HTTP basic authentication. It needs password.", read: text(&s.Username, notEmpty)},
		{name: "password", doc: "Place of the password.", read: secretAt(&s.Password)},
		{name: "headers", doc: "Headers, such as {Authorization: {file: token}, X-Scope-OrgID: tenant}.", read: headers(&s.Headers)},
		{name: "timeout", doc: "How long one request may take.", read: milliseconds(&s.Timeout)},
	}
}

// since reads a time, or how long ago.
func since(at *time.Time, ago *time.Duration) valueParser {
	const takes = "a time such as 2026-01-02T03:04:05Z, or how long ago, such as -14d"
	return valueParser{takes: takes, read: func(d *Decoder, path string, n *yaml.Node) {
		if n.Kind == yaml.ScalarNode {
			if past, negative := strings.CutPrefix(n.Value, "-"); negative {
				if v, err := model.ParseDuration(past); err == nil {
					*ago = time.Duration(v)
					return
				}
			} else if t, err := times.Parse(n.Value); err == nil {
				*at = t
				return
			}
		}
		d.wrongType(path, takes, n)
	}}
}

// checkServer holds what concerns more than one key of a server at a path.
func (d *decoder) checkServer(at string, s *httpclient.Server) {
	d.checkLogin(at)
	if s.TLS != nil && strings.HasPrefix(s.URL.Text, "http://") {
		d.fail(at+".tls", "is for a url of https://")
	}
}

// prometheusKey declares a sink of series.
func (s *Sink) prometheusKey() key {
	p := &promio.Sink{Server: defaultServer()}
	return key{name: "prometheus", doc: "A server that takes remote write, version 1. It gets hafvf_score, _threshold, _usual, _usual_lower and _usual_upper (two sd), and _alarm, with the labels of the key's series, or the label key. It needs detect.",
		seen: func() { s.Prometheus = p },
		keys: serverKeys(&p.Server, "URL of the server. Without a path it is that of Prometheus, /api/v1/write.")}
}

// checkWritten refuses a sink of series where there are no scores or times.
func (d *decoder) checkWritten(c *Config) {
	p := c.Sink.Prometheus
	if p == nil {
		return
	}
	const at = "sink.prometheus"
	d.checkServer(at, &p.Server)
	switch {
	case c.Transform == Smooth:
		d.fail(at, "is for transform: filter")
	case c.Detect == nil && !d.failed("detect"):
		d.fail(at, "there are no scores without detect")
	}
	d.NeedTime("an empty name means that there is no time, which samples need")
}
