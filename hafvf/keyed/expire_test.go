package keyed

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hafvf/hafvf"
	"hafvf/internal/clock"
	"hafvf/internal/testing/expect"
)

// Dropping the state of a key changes no result: a key whose state is dropped at any time after its log has passed
// KeyState.Expiry gives the same results as a key whose state is retained. The records of keys are out of order, one
// key after the other as in an export, and behind their log.
func TestDroppingExpiredKeysChangesNothing(t *testing.T) {
	const expire, lateness = 90 * 24 * time.Hour, time.Hour
	est := newEstimator(t, Config{Filter: hafvf.Config{Family: "poisson"}, Expire: expire, Lateness: lateness})
	rapid.Check(t, func(t *rapid.T) {
		dropping, retained := map[string]*KeyState{}, map[string]*KeyState{}
		state := func(states map[string]*KeyState, key string) *KeyState {
			if states[key] == nil {
				e := must(est.Open(key, nil))
				states[key] = &e
			}
			return states[key]
		}
		learned := func(e *KeyState, more ...Observation) (text string) {
			for _, o := range append(due(e), more...) {
				var out Estimate
				learnNow(e, &out, &o)
				text += fmt.Sprintf(" n %d of %v, %v", out.N, o.Time, out.Estimate.Mean)
			}
			return text
		}
		take := func(e *KeyState, o Observation) string {
			now, err := e.take(&o)
			switch {
			case err != nil:
				return err.Error() + learned(e)
			case now:
				return learned(e, o)
			}
			return learned(e)
		}
		times := map[string]time.Time{}
		passed := time.Time{}
		start := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
		for i := range rapid.IntRange(1, 60).Draw(t, "records") {
			key := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key")
			if times[key].IsZero() {
				times[key] = start.Add(time.Duration(rapid.IntRange(0, 400).Draw(t, "begins")) * 24 * time.Hour)
			}
			times[key] = times[key].Add(time.Duration(rapid.SampledFrom([]int{-1, 1, 24, 24 * 20, 24 * 85, 24 * 91, 24 * 200}).Draw(t, "later")) * time.Hour)
			o := Value(times[key], "", float64(i%5))
			o.Log, o.Seq = "log-0", int64(i)
			if passed.After(o.Time) {
				o.LogTime = passed
			}
			want := take(state(retained, key), o)
			if got := take(state(dropping, key), o); got != want {
				t.Fatalf("record %d of %s at %v, log at %v: %s\nwithout drops: %s", i, key, o.Time, passed, got, want)
			}
			passed = clock.Later(passed, o.Time)
			released := map[string]string{}
			for key, e := range retained {
				e.Release(passed.Add(-lateness))
				released[key] = learned(e)
			}
			for key, e := range dropping {
				e.Release(passed.Add(-lateness))
				if got := learned(e); got != released[key] {
					t.Fatalf("released %s of %s, without drops %s", got, key, released[key])
				}
				if first, _ := e.Waiting(); first.IsZero() && passed.After(e.Expiry()) && rapid.Bool().Draw(t, "drops") {
					delete(dropping, key)
					continue
				}
				b, _ := e.AppendBinary(nil)
				if expiry := est.Expiry(b); !expiry.Equal(e.Expiry()) {
					t.Fatalf("the encoded state expires at %v, the KeyState at %v", expiry, e.Expiry())
				}
				e := must(est.Open(key, b))
				dropping[key] = &e
			}
		}
	})
}

// A key expires after Expire, the lateness and an interval, counted from its time or, in parts of a sixteenth of
// Expire, from the time of its log.
func TestExpiry(t *testing.T) {
	last := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	cfg := Config{Filter: hafvf.Config{Family: "poisson"}, Expire: 16 * time.Hour, Lateness: time.Minute}
	aggregated := cfg
	aggregated.Lateness, aggregated.Aggregate = 0, &AggregateConfig{Aggregation: Aggregation{Every: time.Second, Value: Count}}
	for _, c := range []struct {
		cfg         Config
		ahead, want time.Duration
	}{
		{cfg, 0, 16*time.Hour + time.Minute},
		{cfg, 3*time.Hour + 59*time.Minute, 19*time.Hour + time.Minute},
		{aggregated, 0, 16*time.Hour + time.Second},
	} {
		e := open(t, newEstimator(t, c.cfg), nil)
		o := Value(last, "", 1)
		o.LogTime = last.Add(c.ahead)
		take(t, &e, &o)
		if got := e.Expiry().Sub(last); got != c.want {
			t.Errorf("a log %v ahead: it expires after %v, want %v", c.ahead, got, c.want)
		}
	}
}

// A diary is a Listener that stores estimates, with their times, and silences.
type diary struct {
	yielder
	times             []time.Time
	encoded, silences []string
	expired           int
}

func (d *diary) Estimated(_ *Observation, out *Estimate) {
	b, _ := out.AppendBinary(nil)
	d.times, d.encoded = append(d.times, out.Time), append(d.encoded, string(b))
}
func (d *diary) SilenceEnded(s SilenceEvent) {
	d.silences = append(d.silences, fmt.Sprint(s.Since, s.Until))
}
func (d *diary) Expired() { d.expired++ }

// diaryOf passes observations to a key, whose state is stored and opened after each.
func diaryOf(t *testing.T, est *Estimator, observations []Observation) (d diary) {
	e := open(t, est, nil)
	for i := range observations {
		e.Process(&Memory{}, &d, &observations[i])
		for e.ProcessDue(&Memory{}, &d) {
		}
		e = open(t, est, e.append(nil))
	}
	e.Release(e.clock.Add(time.Hour))
	for e.ProcessDue(&Memory{}, &d) {
	}
	return d
}

// After its expiry a key begins anew: estimates, alarms and silences equal those of a key that has only the later
// observations. A pause of Expire resets nothing, and one that is a second longer does; with intervals, the time counts
// from the start of an interval. Intervals without events end at the expiry.
func TestExpiredKeyBeginsAnew(t *testing.T) {
	const expire, every, n = 6 * time.Hour, 5 * time.Minute, 150
	silence := &SilenceConfig{After: 2 * time.Hour}
	for name, change := range map[string]func(*Config){
		"detection": func(*Config) {},
		"lateness":  func(c *Config) { c.Lateness, c.TimeUnit = time.Minute, time.Minute },
		"silence":   func(c *Config) { c.Silence = silence },
		"means":     func(c *Config) { c.Aggregate = &AggregateConfig{Aggregation: Aggregation{Every: every, Value: Mean}} },
		"counts": func(c *Config) {
			c.Aggregate = &AggregateConfig{Aggregation: Aggregation{Every: every, Value: Count, Zero: true}}
			c.Silence, c.Lateness = silence, time.Minute
		},
	} {
		cfg, margin := Recommended("normal"), time.Duration(0)
		cfg.Expire = expire
		if change(&cfg); cfg.Aggregate != nil {
			margin = every
		}
		est, rng := newEstimator(t, cfg), rand.New(rand.NewPCG(36, 1))
		when := time.Date(2026, 1, 5, 16, 0, 0, 0, time.UTC)
		var lives [3][]Observation
		for life := range lives {
			for i := range n {
				lives[life] = append(lives[life], Value(when, "", rng.NormFloat64()+float64(life)))
				switch i {
				case 100:
					when = when.Add(expire - margin)
				case n - 1:
					when = when.Add([]time.Duration{expire + margin + time.Second, 3 * expire, 0}[life])
				default:
					when = when.Add(time.Duration(rng.ExpFloat64()*float64(expire)/40) + time.Second)
				}
			}
		}
		whole := diaryOf(t, est, slices.Concat(lives[0], lives[1], lives[2]))
		var silences []string
		for life, observations := range lives {
			alone, last := diaryOf(t, est, observations), observations[n-1].Time
			begin := slices.IndexFunc(whole.times, func(t time.Time) bool { return !t.Before(alone.times[0]) })
			end := begin + len(alone.times)
			expect.Same(t, alone.encoded, whole.encoded[begin:end], name, ", life ", life)
			for ; end < len(whole.times) && whole.times[end].Sub(last) <= expire; end++ {
			}
			silences = append(silences, alone.silences...)
			if life == len(lives)-1 {
				expect.Same(t, len(whole.times), end, name)
				continue
			}
			if cfg.Silence != nil {
				silences = append(silences, fmt.Sprint(last, time.Time{}))
			}
			expect.Same(t, true, whole.times[end].Equal(diaryOf(t, est, lives[life+1]).times[0]), name, ", after life ", life)
		}
		expect.Same(t, silences, whole.silences, name)
		expect.Same(t, len(lives)-1, whole.expired, name)
	}
}
