package promio

import "testing"

// Values are named after the only metric of a query, and are a rate if the query computes one.
func TestMeasured(t *testing.T) {
	for query, want := range map[string]struct {
		metric    string
		perSecond bool
	}{
		`up`:                       {"up", false},
		`{__name__=~"a_ms|b"}`:     {`{__name__=~"a_ms|b"}`, false},
		`rate(requests_total[5m])`: {"requests_total", true},
		`sum by (job) (rate(x_bytes_total{job=~"a|b (c)"}[5m]))`:                                      {"x_bytes_total", true},
		`sum(irate(x_total[5m] offset 1h)) by (job, instance)`:                                        {"x_total", true},
		`{__name__=~"p95_ms|mem_bytes"} or rate(requests_total[5m])`:                                  {"requests_total", true},
		`histogram_quantile(0.95, sum by (le, job) (rate(http_request_duration_seconds_bucket[5m])))`: {"http_request_duration_seconds", false},
		`increase(jobs_total[1h])`:                                                                    {"jobs_total", false},
		`max_over_time(temp_celsius[5m]) > 3`:                                                         {"temp_celsius", false},
		`count(up == 1)`:                                                                              {"count(up == 1)", false},
		`8 * rate(x_bytes_total[5m])`:                                                                 {"8 * rate(x_bytes_total[5m])", false},
		"rate(errors_total[5m])\n  / rate(requests_total[5m])":                                        {"rate(errors_total[5m]) / rate(requests_total[5m])", false},
		`job:latency_seconds:p95{job="a"}`:                                                            {"job:latency_seconds:p95", false},
	} {
		metric, perSecond := Source{Query: query}.Measured()
		if metric != want.metric || perSecond != want.perSecond {
			t.Errorf("%s: %q, %v; want %q, %v", query, metric, perSecond, want.metric, want.perSecond)
		}
	}
}
