package transforms_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/passert"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/hafvf/keyed"
	"hafvf/pipeline/direct"
	"hafvf/transforms"
)

// weighing is a type of the user.
type weighing struct {
	Scale string
	Unix  int64
	Grams float64
}

// weigh returns the observation of a weighing, and its key.
func weigh(w weighing) (string, keyed.Observation) {
	return w.Scale, keyed.Value(time.Unix(w.Unix, 0), fmt.Sprint(w.Scale, "@", w.Unix), w.Grams)
}

// report is the last step of the user's pipeline.
func report(scale string, e keyed.Estimate) {
	fmt.Printf("%s %d: predicted %.1f, is %.1f, now %.1f ± %.1f\n", scale, e.N, e.Predicted.Mean[0], e.X[0][0], e.Estimate.Mean[0], e.Estimate.SD[0])
}

func printAlarm(a keyed.AlertEvent) { fmt.Printf("%s, %s: %s\n", a.ID, a.Kind, a.Message) }

// reportChange reports where a finished session changed.
func reportChange(scale string, e keyed.Smoothed) {
	if e.Change {
		fmt.Printf("%s changed at record %d of %d, evidence %.1f nats\n", scale, e.N, e.Session.N, e.ChangeEvidence)
	}
}

func init() {
	register.Function1x2(weigh)
	register.Function2x0(report)
	register.Function2x0(reportChange)
	register.Function1x2(observe)
	register.Function1x0(printAlarm)
	register.Function1x3(parseReading)
	register.Function1x0(printRejected)
	// Priors are registered by name, so that a worker in another process can read them.
	expfam.Register("known-noise", func(p expfam.Prior, _ int) (expfam.Model, error) {
		m := knownNoise{Natural: expfam.Natural{N: 2}, mean: p.Float("mean", 0), precision: p.Positive("precision", 1), noise: p.Positive("noise", 1)}
		return m, p.Done()
	})
}

// A pipeline of records of a user's type. Each record becomes an observation, and gets its prediction and the
// estimate after it.
func ExampleFilter() {
	p, s := beam.NewPipelineWithRoot()
	weighings := beam.Create(s,
		weighing{"kitchen", 0, 101}, weighing{"kitchen", 60, 99}, weighing{"kitchen", 120, 100}, weighing{"kitchen", 180, 98},
		weighing{"kitchen", 240, 131}, weighing{"kitchen", 300, 130}, weighing{"kitchen", 360, 129})

	out := transforms.Filter(s, keyed.Config{
		Filter: hafvf.Config{Family: "normal", WarmUp: 3}, // location and scale from the first 3 values
	}, weigh, weighings)
	beam.ParDo0(s, report, out.Estimates) // out.Rejected: late, or not an observation of the model

	if _, err := direct.Execute(context.Background(), p); err != nil {
		fmt.Println(err)
	}
	// Output:
	// kitchen 1: predicted NaN, is 101.0, now 101.0 ± 0.1
	// kitchen 2: predicted 101.0, is 99.0, now 100.0 ± 1.3
	// kitchen 3: predicted 100.0, is 100.0, now 100.0 ± 0.9
	// kitchen 4: predicted 100.0, is 98.0, now 99.4 ± 0.8
	// kitchen 5: predicted 99.4, is 131.0, now 126.3 ± 10.6
	// kitchen 6: predicted 124.1, is 130.0, now 129.4 ± 4.7
	// kitchen 7: predicted 127.9, is 129.0, now 128.9 ± 3.3
}

// A reading is the pressure of a pump at one time.
type reading struct {
	Pump string
	At   time.Time
	Bar  float64
}

func observe(r reading) (string, keyed.Observation) {
	return r.Pump, keyed.Value(r.At, fmt.Sprint("reading ", r.At.Unix()/60), r.Bar)
}

// readings returns the readings of a pump: a value around 20 every minute, which rises by 10 after an hour and a
// half.
func readings(s beam.Scope) beam.PCollection {
	var list []reading
	for minute := range 120 {
		r := reading{"pump", time.Unix(60*int64(minute), 0).UTC(), 20 + float64(minute*7%5)/2}
		if minute >= 90 {
			r.Bar += 10
		}
		list = append(list, r)
	}
	return beam.CreateList(s, list)
}

// A pipeline with detection, with a source and a sink for alarms of the user's own.
func ExampleFilter_alarms() {
	p, s := beam.NewPipelineWithRoot()
	out := transforms.Filter(s, keyed.Recommended("normal"), observe, readings(s))
	beam.ParDo0(s, printAlarm, out.Alarms)
	if _, err := direct.Execute(context.Background(), p); err != nil {
		fmt.Println(err)
	}
	// Output:
	// reading 90, novelty: pump is 43 % above usual at 1970-01-01 01:30: 30, usual at this hour 21.0 ± 0.6.
}

// parseReading parses "pump minute bar".
func parseReading(line string) (string, keyed.Observation, error) {
	var pump string
	var minute int64
	var bar float64
	if _, err := fmt.Sscan(line, &pump, &minute, &bar); err != nil {
		return pump, keyed.Observation{}, fmt.Errorf("%q is not a reading", line)
	}
	return pump, keyed.Value(time.Unix(60*minute, 0).UTC(), fmt.Sprint("reading ", minute), bar), nil
}

func printRejected(r keyed.Rejected) { fmt.Printf("%s: %s\n", r.Key, r.Reason) }

// Lines of text become observations. A line that cannot be parsed is rejected with the error, and the others are filtered.
func ExampleFilterParsed() {
	p, s := beam.NewPipelineWithRoot()
	lines := beam.Create(s, "pump 0 20", "pump 1 21", "pump 2 broken", "pump 3 20.5")
	out := transforms.FilterParsed(s, keyed.Recommended("normal"), parseReading, lines)
	beam.ParDo0(s, printRejected, out.Rejected)
	if _, err := direct.Execute(context.Background(), p); err != nil {
		fmt.Println(err)
	}
	// Output:
	// pump: "pump 2 broken" is not a reading
}

// A test of a pipeline: passert checks its results. In one process, observe may be a closure.
func TestAlarms(t *testing.T) {
	p, s := beam.NewPipelineWithRoot()
	const kPa = 100. // kilopascals in a bar
	out := transforms.Filter(s, keyed.Recommended("normal"), func(r reading) (string, keyed.Observation) {
		return r.Pump, keyed.Value(r.At, "", kPa*r.Bar)
	}, readings(s))
	passert.Count(s, out.Alarms, "alarms", 1)
	passert.Count(s, out.Estimates, "estimates", 120)
	if _, err := direct.Execute(t.Context(), p); err != nil {
		t.Error(err)
	}
}

// A session ends if nothing is weighed for an hour. Each session is smoothed as a whole.
func ExampleSmooth() {
	p, s := beam.NewPipelineWithRoot()
	var weighings []weighing
	for i := range int64(30) {
		grams := 100 + float64(i*7%5)
		if i >= 18 {
			grams += 30
		}
		weighings = append(weighings, weighing{"kitchen", 60 * i, grams})
	}

	out := transforms.Smooth(s, keyed.SmoothConfig{
		Filter: hafvf.Config{
			Family: "normal",
			WarmUp: 1, // location and scale from the whole session
			Member: &hafvf.Member{Levels: []hafvf.Beta{{Alpha: 9, Beta: 1}, {Alpha: 1, Beta: 1}}, Top: 1},
		},
		Gap: time.Hour,
	}, weigh, beam.CreateList(s, weighings))
	beam.ParDo0(s, reportChange, out.Smoothed)

	if _, err := direct.Execute(context.Background(), p); err != nil {
		fmt.Println(err)
	}
	// Output:
	// kitchen changed at record 19 of 30, evidence 26.7 nats
}

// knownNoise is a model of the user: x ~ N(z, noise²), z ~ N(mean, 1/precision).
// With k the precision and μ the mean of z, θ = (k·μ, k) and B = ½ k·μ² − ½ ln k.
type knownNoise struct {
	expfam.Natural
	mean, precision, noise float64
}

func (knownNoise) Dim() int                     { return 1 }
func (knownNoise) Outputs() int                 { return 1 }
func (m knownNoise) Memory(d []float64) float64 { return d[1] * m.noise * m.noise }
func (m knownNoise) PriorMemory() float64       { return m.precision * m.noise * m.noise }
func (m knownNoise) Observe(d, x []float64, weight float64) {
	k := weight / (m.noise * m.noise)
	d[0] += k * x[0]
	d[1] += k
}
func (m knownNoise) Check(x []float64) error {
	if math.IsInf(x[0], 0) {
		return fmt.Errorf("%g grams", x[0])
	}
	return nil
}
func (m knownNoise) LogBase(x []float64) float64 {
	u := x[0] / m.noise
	return -0.5*u*u - math.Log(m.noise) - 0.5*math.Log(2*math.Pi)
}
func (m knownNoise) moments(d []float64, s float64) (h, k float64) {
	return m.mean*m.precision + s*d[0], m.precision + s*d[1]
}
func (knownNoise) Params() []expfam.Param {
	return []expfam.Param{{Name: "mean"}, {Name: "precision"}}
}
func (m knownNoise) Posterior(dst, d []float64) {
	h, k := m.moments(d, 1)
	dst[0], dst[1] = h/k, k
}
func (m knownNoise) Estimate(mean, sd, d, _ []float64) {
	h, k := m.moments(d, 1)
	mean[0], sd[0] = h/k, math.Sqrt(1/k)
}
func (m knownNoise) Predict(mean, sd, d []float64, s float64, _ []float64) {
	h, k := m.moments(d, s)
	mean[0], sd[0] = h/k, math.Sqrt(1/k+m.noise*m.noise)
}
func (m knownNoise) NewLine() expfam.Line { return &noiseLine{m: m} }

type noiseLine struct {
	m    knownNoise
	d, t []float64
}

func (l *noiseLine) Set(d, t []float64) { l.d, l.t = d, t }

func (l *noiseLine) Gain(s float64) float64 {
	h, k := l.m.moments(l.d, s)
	hT, kT := h+l.t[0], k+l.t[1]
	return 0.5 * (hT*hT/kT - h*h/k - math.Log(kT/k))
}

func (l *noiseLine) Jet(s float64) expfam.Jet {
	h, k := l.m.moments(l.d, s)
	f1, f2, f3, f4 := l.derivatives(h, k)
	g1, g2, _, _ := l.derivatives(h+l.t[0], k+l.t[1])
	return expfam.Jet{Q1: g1 - f1, Q2: g2 - f2, F2: f2, F3: f3, F4: f4}
}

// derivatives returns the derivatives of B at (h, k) along d.
func (l *noiseLine) derivatives(h, k float64) (f1, f2, f3, f4 float64) {
	mu, r := h/k, l.d[1]/k
	slope := (l.d[0] - mu*l.d[1]) / k // of the mean
	f1 = mu*l.d[0] - 0.5*mu*mu*l.d[1] - 0.5*r
	f2 = k*slope*slope + 0.5*r*r
	f3 = -3*l.d[1]*slope*slope - r*r*r
	f4 = 12*l.d[1]*r*slope*slope + 3*r*r*r*r
	return f1, f2, f3, f4
}

// A user's family, registered by name in an init function: a normal distribution with known noise.
func ExampleFilter_ownFamily() {
	p, s := beam.NewPipelineWithRoot()
	weighings := beam.Create(s,
		weighing{"kitchen", 0, 101}, weighing{"kitchen", 60, 99}, weighing{"kitchen", 120, 100},
		weighing{"kitchen", 180, 131}, weighing{"kitchen", 240, 130}, weighing{"kitchen", 300, 129})

	out := transforms.Filter(s, keyed.Config{
		Filter: hafvf.Config{
			Family: "known-noise",
			Prior:  expfam.Params{"mean": 100.0, "precision": 1e-4, "noise": 2.0},
			Member: &hafvf.Member{Levels: []hafvf.Beta{{Alpha: .9, Beta: .1}, {Alpha: 1, Beta: 1}}, Top: 1}, // w, b
		},
	}, weigh, weighings)
	beam.ParDo0(s, report, out.Estimates)

	if _, err := direct.Execute(context.Background(), p); err != nil {
		fmt.Println(err)
	}
	// Output:
	// kitchen 1: predicted 100.0, is 101.0, now 101.0 ± 2.0
	// kitchen 2: predicted 101.0, is 99.0, now 100.0 ± 1.4
	// kitchen 3: predicted 100.0, is 100.0, now 100.0 ± 1.2
	// kitchen 4: predicted 100.0, is 131.0, now 130.6 ± 2.0
	// kitchen 5: predicted 129.3, is 130.0, now 130.0 ± 2.0
	// kitchen 6: predicted 129.6, is 129.0, now 129.0 ± 2.0
}
