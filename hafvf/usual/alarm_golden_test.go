package usual

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"hafvf/hafvf/expfam"
)

// An alarmTrace is a file of testdata/real, which the README there describes.
type alarmTrace struct {
	X, T                    []float64
	Location, Scale, Period float64
	Rows                    []struct {
		I         int
		Kind      string
		Z, C      []float64
		Score     float64
		Threshold *float64
		Alarm     AlarmKind
	}
}

func readAlarmTrace(t testing.TB, file string) (trace alarmTrace) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &trace); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return trace
}

// times returns the times of the trace, zero ones where it has none.
func (tr alarmTrace) times() []time.Time {
	times := make([]time.Time, len(tr.X))
	for i, s := range tr.T {
		times[i] = time.Unix(0, int64(s*1e9))
	}
	return times
}

// Profile and alarm give the scores and alarms of the reference, under its commits.
func TestAlarmTraces(t *testing.T) {
	const warmUp = 50
	for _, name := range []string{"iid", "ar", "season", "iid_shared", "ar_shared", "season_shared"} {
		t.Run(name, func(t *testing.T) {
			trace := readAlarmTrace(t, "testdata/real/golden_"+name+".json")
			times := trace.times()
			location, scale := expfam.LocationScale(trace.X[:warmUp])
			period := BudgetOver(DefaultBudgetTime, MedianStep(times[:warmUp]))
			if location != trace.Location || math.Abs(scale-trace.Scale) > 1e-15*scale || period != trace.Period {
				t.Fatalf("location %v, scale %v, period %v; want %v, %v, %v", location, scale, period, trace.Location, trace.Scale, trace.Period)
			}
			c := DefaultProfile()
			if !strings.HasSuffix(name, "_shared") {
				c.Order = 0
			}
			if trace.T == nil {
				c.Seasons = nil
			}
			p, a := profileOf(c), alarmOf(DefaultBudget, DefaultRest)
			s, u := p.NewState(), a.NewState()
			a.SetBudget(u, period)
			rows, worst := trace.Rows, 0.0
			compare := func(what string, got, want float64) {
				t.Helper()
				worst = math.Max(worst, math.Abs(got-want))
				if !(math.Abs(got-want) <= 1e-8) {
					t.Fatalf("observation %d: %s %v, want %v", rows[0].I, what, got, want)
				}
			}
			alarms := 0
			for i, x := range trace.X {
				known := len(rows) > 0 && rows[0].I == i
				step := p.Update(s, times[i], []float64{(x - location) / scale})
				alarm, threshold := NoAlarm, math.NaN()
				if i >= warmUp {
					alarm, threshold = a.Update(u, step.Score, known && rows[0].Kind == "change", nil)
				}
				if !known {
					if alarm != NoAlarm {
						t.Fatalf("observation %d: %s, want no alarm", i, alarm)
					}
					continue
				}
				if alarm != rows[0].Alarm {
					t.Fatalf("observation %d: alarm %q, want %q", i, alarm, rows[0].Alarm)
				}
				if alarm != NoAlarm {
					alarms++
				}
				compare("score", step.Score, rows[0].Score)
				if want := rows[0].Threshold; want != nil {
					compare("threshold", threshold, *want)
				} else if i >= warmUp {
					t.Fatalf("observation %d has no threshold", i)
				}
				if len(rows[0].Z) != p.Views() {
					t.Fatalf("%d views, want %d", p.Views(), len(rows[0].Z))
				}
				for k, v := range step.Views {
					compare("surprise", v.Surprise, rows[0].Z[k])
					compare("mean", v.Mean, rows[0].C[k])
				}
				rows = rows[1:]
			}
			if len(rows) > 0 || alarms == 0 {
				t.Fatalf("%d rows left, %d alarms", len(rows), alarms)
			}
			t.Logf("%d alarms; worst error %.1e", alarms, worst)
		})
	}
}
