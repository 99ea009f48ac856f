package transforms_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"hafvf/hafvf"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/usual"
	"hafvf/internal/dofn"
	"hafvf/internal/testing/expect"
	"hafvf/pipeline/direct"
	"hafvf/transforms"
)

func init() {
	register.Function2x0((&emitBatchesFn{}).ProcessElement)
	dofn.Register(func(f *emitBatchesFn) any { return f.ProcessElement })
	register.Emitter1[int]()
	transforms.Register("test", func(_ context.Context, name string) transforms.Decoder { return &decoder{caseOf(name).in, nil} })
	transforms.Register("test", func(context.Context, string) transforms.Encoder { return encoder{} })
}

// batchSize is the number of observations in a batch, which is an element.
const batchSize = 100

// emitBatchesFn emits the indices of the case's batches.
type emitBatchesFn struct{ Case string }

func (fn *emitBatchesFn) ProcessElement(_ []byte, emit func(int)) {
	for i := range (len(caseOf(fn.Case).in) + batchSize - 1) / batchSize {
		emit(i)
	}
}

// undecodable is a key whose observations the decoder rejects.
const undecodable = "undecodable"

// decoder passes on the observations of a batch, all in the same memory.
type decoder struct {
	in []input
	x  []float64
}

func (d *decoder) Decode(element any, take func(key string, o *keyed.Observation) error, reject func([]byte, int)) {
	start := element.(int) * batchSize
	part := d.in[start:min(len(d.in), start+batchSize)]
	for _, k := range part {
		o := k.obs
		d.x = append(d.x[:0], o.X[0]...)
		o.X = [][]float64{d.x}
		err := errors.New("undecodable")
		if k.key != undecodable {
			err = take(k.key, &o)
		}
		if err != nil {
			reject([]byte(o.ID+": "+err.Error()+"\n"), 1)
		}
	}
}

// encoder writes an estimate in full, and then destroys it.
type encoder struct{}

func (encoder) Estimate(dst *transforms.Encoded, key string, e *keyed.Estimate) {
	dst.Records = fmt.Appendf(dst.Records, "%s %s\n", key, text(*e))
	if e.Alarm != nil {
		dst.Alerts = fmt.Appendf(dst.Alerts, "%s%s\n", key, alertText(*e.Alarm))
	}
	for _, v := range [][]float64{e.X[0], e.Predicted.Mean, e.Predicted.SD, e.Lower, e.Upper, e.Estimate.Mean, e.Estimate.SD, e.Levels, e.Posterior, e.Regime.Mean, e.Regime.SD} {
		for i := range v {
			v[i] = math.Inf(-1)
		}
	}
	clear(e.Bank)
	if e.Detection != nil {
		*e.Detection = keyed.Detection{}
	}
	*e = keyed.Estimate{Missing: e.Missing, Iterations: e.Iterations}
}

func (encoder) Silent(dst *transforms.Encoded, key string, s keyed.SilenceEvent) {
	dst.Alerts = fmt.Appendf(dst.Alerts, "%s since %d, %v, n %d, %d outputs\n", key, int(s.Since.Sub(begin).Seconds()), s.Bound, s.N, s.Outputs)
}

func (encoder) Outside(dst *transforms.Encoded, key string, e *keyed.Estimate) {
	dst.Alerts = fmt.Appendf(dst.Alerts, "%s %s\n", key, e.Alarm.Message)
}

func (encoder) Forgotten(*transforms.Encoded, string) {}

func (encoder) WantsOngoing() bool                                    { return false }
func (encoder) Ongoing(*transforms.Encoded, string, keyed.AlertEvent) {}
func (encoder) Rewound(string, time.Time, time.Time)                  {}

func (encoder) Flush() {}

func text(e keyed.Estimate) string {
	var more string
	if e.Detection != nil {
		d := *e.Detection
		more += episodeText(&d.Episode) + fmt.Sprintf(" %+v", d)
	}
	if e.Alarm != nil {
		more += alertText(*e.Alarm)
	}
	if e.Silence != nil {
		more += fmt.Sprintf(" %+v", *e.Silence)
	}
	if e.Recovered != nil {
		more += " " + e.Recovered.ID + alertText(*e.Recovered.Alert)
	}
	e.Detection, e.Alarm, e.Silence, e.Recovered = nil, nil, nil, nil
	return fmt.Sprintf("%+v", e) + more
}

func alertText(a keyed.Alert) string {
	return episodeText(&a.Episode) + fmt.Sprintf(" %+v", a)
}

// episodeText returns the values of an episode, whose address differs between runs, and sets it to nil.
func episodeText(ep **keyed.EpisodeReport) (values string) {
	if *ep != nil {
		values = fmt.Sprintf(" %+v", **ep)
		*ep = nil
	}
	return values
}

// runEncoded runs the node with the decoder and the encoder over the observations. It returns the case with the
// lines of each kind, by key.
func runEncoded(t *testing.T, in []input, node func(s beam.Scope, in, out transforms.Registered, batches beam.PCollection) map[string]beam.PCollection) *testCase {
	t.Helper()
	c := &testCase{in: in, lines: map[string][]string{}}
	cases.Store(t.Name(), c)
	p, s := beam.NewPipelineWithRoot()
	batches := beam.ParDo(s, &emitBatchesFn{t.Name()}, beam.Impulse(s))
	for kind, col := range node(s, transforms.Registered{Name: "test", Setting: t.Name()}, transforms.Registered{Name: "test"}, batches) {
		beam.ParDo(s, &collectOneFn{t.Name(), kind}, col)
	}
	expect.Get(direct.Execute(context.Background(), p))(t)
	for _, lines := range c.lines {
		slices.SortStableFunc(lines, func(a, b string) int {
			a, _, _ = strings.Cut(a, " ")
			b, _, _ = strings.Cut(b, " ")
			return strings.Compare(a, b)
		})
	}
	return c
}

// Encoders get the estimates that Filter emits, one at a time in reused memory. The same observations are rejected
// as late.
func TestFilterEncodedIsFilter(t *testing.T) {
	detects := hafvf.Config{Family: "normal", WarmUp: 20, Bank: hafvf.DefaultBankFor("normal"), Detect: &hafvf.Detect{}}
	for name, cfg := range map[string]keyed.Config{
		"arrival":  keyed.Config{Filter: twoLevels, Order: keyed.Arrival},
		"in order": keyed.Config{Filter: twoLevels, Interval: .9},
		"lateness": keyed.Config{Filter: twoLevels, Lateness: 20 * time.Second},
		"detects":  keyed.Config{Filter: detects, Lateness: 3 * time.Second, Keys: []keyed.Rule{{Match: "k1", Filter: hafvf.Config{Family: "normal"}}}},
		"season":   keyed.Config{Filter: hafvf.Config{Family: "normal", WarmUp: 20, Season: &usual.RhythmConfig{Seasons: []usual.Season{{Period: time.Hour, Harmonics: 2}}}}},
		"silence":  keyed.Config{Filter: twoLevels, Silence: &keyed.SilenceConfig{After: 30 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			in := randomStream(3000, 12)
			for i := range in {
				switch {
				case i%97 == 0:
					in[i].obs.Time = in[i].obs.Time.Add(-10 * time.Second)
				case i%500 == 7:
					in[i].key = undecodable
				case i%500 == 8:
					in[i].key = ""
				case i%311 == 310:
					in[i].obs.X = [][]float64{{100}} // an alarm
				}
			}
			c := runEncoded(t, in, func(s beam.Scope, in, out transforms.Registered, batches beam.PCollection) map[string]beam.PCollection {
				records, alerts, undecoded, late := transforms.FilterEncoded(s, cfg, transforms.Host{Cells: []string{"a", "b"}}, in, out, batches)
				beam.ParDo(s, &collectOneFn{Case: t.Name()}, late)
				return map[string]beam.PCollection{"records": records, "alerts": alerts, "undecoded": undecoded}
			})
			late := c.rejected
			decodable := slices.DeleteFunc(slices.Clone(in), func(k input) bool { return k.key == undecodable })
			var want, alerts []string
			f := runFilter(t.Context(), t, cfg, decodable)
			for key, estimates := range f.out {
				for _, e := range estimates {
					want = append(want, key+" "+text(e))
					if e.Alarm != nil {
						alerts = append(alerts, key+alertText(*e.Alarm))
					}
				}
			}
			byKey := func(a, b string) int {
				a, _, _ = strings.Cut(a, " ")
				b, _, _ = strings.Cut(b, " ")
				return strings.Compare(a, b)
			}
			slices.SortStableFunc(want, byKey)
			slices.SortStableFunc(alerts, byKey)
			same(t, c.lines["records"], want)
			same(t, c.lines["alerts"], alerts)
			if len(want)+len(late)+12 != len(in) || name == "detects" && len(alerts) == 0 {
				t.Errorf("%d records, %d late, %d alerts", len(want), len(late), len(alerts))
			}
			same(t, len(c.lines["undecoded"]), 12)
			var lateOfFilter []keyed.Rejected
			for _, r := range f.rejected {
				if r.Key != "" {
					lateOfFilter = append(lateOfFilter, r)
				}
			}
			byID := func(a, b keyed.Rejected) int { return strings.Compare(a.ID, b.ID) }
			slices.SortFunc(late, byID)
			slices.SortFunc(lateOfFilter, byID)
			same(t, late, lateOfFilter)
			if name == "in order" && len(late) == 0 {
				t.Error("no observation is late")
			}
		})
	}
}
