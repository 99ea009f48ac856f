package fleet

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"hafvf/hafvf/incidents"
	"hafvf/hafvf/keyed"
	"hafvf/internal/testing/expect"
)

// usualFleet is a fleet of series with steps of a minute: daily waves, working hours, heavy tails, and a nightly
// job, each with correlated noise and a drifting level. Every two weeks on average, a series has a disturbance: a
// spike of three minutes, or a shift of up to six hours.
type usualFleet struct{ series, weeks int }

const minutes = 7 * 24 * 60 // per week

// perWeek counts messages by week: pages of incidents, and alarms outside incidents.
type perWeek []int

func (p perWeek) add(t time.Time) { p[int(t.Sub(start)/(168*time.Hour))]++ }

func (p perWeek) Alert(_ string, t keyed.AlertEvent, incident string) {
	if incident == "" {
		p.add(t.Time)
	}
}

func (p perWeek) Incident(e *incidents.Event) {
	if e.Page {
		p.add(e.Time)
	}
}

func (perWeek) Single(string, keyed.AlertEvent, bool) {}
func (perWeek) Assigned(incidents.Assignment)         {}
func (perWeek) Digest(*incidents.Digest)              {}

// messages filters the series of the fleet, and counts its messages by week.
func (u usualFleet) messages(t testing.TB, seed uint64) perWeek {
	c := make(perWeek, u.weeks+1) // alarms can end after the last week
	f := expect.Get(New(Config{}, c))(t)
	type noticed struct {
		time time.Time
		b    []byte
	}
	var notices []noticed
	est := expect.Get(keyed.NewEstimator(keyed.Recommended("normal")))(t)
	for series := range u.series {
		rng := rand.New(rand.NewPCG(seed, uint64(series)))
		key := fmt.Sprintf("svc%d/host%d", series%8, series)
		phase, depth := rng.Float64(), .5+2*rng.ExpFloat64()
		correlation, level, noise := .9*rng.Float64(), 0., 0.
		track := est.NewTrack(key)
		size, end := 0., 0
		for i := range u.weeks * minutes {
			hour := math.Mod(float64(i)/60+24*phase/4, 168)
			gauss := rng.NormFloat64()
			busy := math.Sin(2 * math.Pi * hour / 24)
			switch series % 4 {
			case 1: // working hours, five days a week
				busy = 0
				if h := math.Mod(hour, 24); hour < 120 && h > 8 && h < 18 {
					busy = 2
				}
			case 2: // heavy tails
				gauss /= math.Sqrt(rng.ExpFloat64() + .1)
			case 3: // a nightly job
				if h := math.Mod(hour, 24); h > 2 && h < 2.5 {
					busy = 3
				}
			}
			noise = correlation*noise + math.Sqrt(1-correlation*correlation)*gauss
			level = (1-1e-5)*level + .002*rng.NormFloat64()
			if rng.IntN(2*minutes) == 0 {
				size, end = 8*float64(2*rng.IntN(2)-1), i+3
				if rng.IntN(2) == 0 {
					end = i + 60*(1+rng.IntN(6))
				}
			}
			x := depth*busy + level + noise
			if i < end {
				x += size
			}
			o := keyed.Observation{Time: start.Add(time.Duration(i) * time.Minute), ID: fmt.Sprint(i), X: [][]float64{{x}}, Shape: keyed.Scalar}
			e := est.Estimate(track, o)
			if b := AppendNotices(nil, key, &e, e.Alerts(key)); len(b) > 0 {
				notices = append(notices, noticed{e.Time, b})
			}
		}
	}
	slices.SortStableFunc(notices, func(a, b noticed) int { return a.time.Compare(b.time) })
	for _, n := range notices {
		expect.OK(t, f.Process(n.b))
		expect.OK(t, f.Advance(n.time.Add(-time.Minute)))
	}
	expect.OK(t, f.End(notices[len(notices)-1].time))
	return c[:u.weeks]
}

// first returns the number of messages in the third week, relative to the mean of the later weeks.
func (p perWeek) first() float64 {
	sum := 0
	for _, n := range p[3:] {
		sum += n
	}
	return float64(p[2]) * float64(len(p)-3) / float64(sum)
}

// After a history of two weeks, the first week of a run has no more messages than later weeks.
func TestFirstWeekAfterPast(t *testing.T) {
	expect.Long(t, "weeks of minutes of a fleet")
	t.Parallel()
	if alerted := (usualFleet{8, 5}).messages(t, 55); alerted.first() > 1.3 {
		t.Errorf("%v messages by week: the third has %.2f of the mean of the later ones", alerted, alerted.first())
	}
}
