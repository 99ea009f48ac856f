package usual

import (
	"math"
	"slices"
	"time"

	"hafvf/internal/compact"
)

// spikes learns the large deviations that recur at the same hour of the day, each day or on the same days of the week,
// in streams whose steps are too fine for the offsets of a Plan (F1 .10 on plans_5min). The hour of a spike begins at a
// quarter of an hour and has the first deviation near its middle: later ones may begin 22 minutes earlier or later. A
// usual spike is scored and learned as the usual value. A deviation of spikeFrom standard deviations outside the known
// hours starts a new spike. At steps of two minutes or less, these standard deviations are σ·min(1, max(.3, e^(q +
// .635))), with the long-term mean q of ln|d/σF|: spikes that take a large part of the time increase σ to such an
// extent that they do not deviate by 5σ, but hardly increase q. A deviation of 15 sd that lasts half an hour in every
// six is 3.6σ. No set has such spikes.
//
// The logarithm of the largest deviation of an hour is normal: Student's t of the days with the spike gives the score
// of a day without it (F1 .01 on plans_5min). If spikes occur at more hours than are known, no hour is special: none is
// usual, and none is missed (F1 .04 on smd).
type spikes struct {
	known     [4]spike // the known spikes, followed by zero values
	elsewhere uint8    // observations of other spikes, less spikePerHour for each later hour of a recurring spike
}

// A spike is a recurring deviation. Its zero value means none.
type spike struct {
	slot     uint8 // quarter of the day at which its hour begins
	below    bool  // the spike is below usual
	n        uint8 // days with the spike, up to maxSpikeDays
	daysAway uint8 // days since the last of them
	// Mean and sum of squares around it of the logarithms of these days' largest deviations.
	mean, squares  float32
	came           dayRecord
	day            int64   // of the current hour, since 1 January 1970
	seen           uint16  // observations in the current hour
	largest, value float32 // its largest deviation on the side of the spike, and the value there
}

const (
	quarters     = 96   // of a day
	spikeBefore  = .375 // minimum hours from the beginning of its hour to the first spike
	spikeFrom    = 5.   // standard deviations of a new spike
	minSpikeSD   = 3.5  // standard deviations of a recurring spike
	spikeShare   = .25  // of the usual largest deviation, minimum of a recurring spike
	spikeSeen    = .9   // minimum share of an hour's observations
	spikeHabit   = 2    // days with a spike after which it is usual
	spikeRoom    = .7   // a usual spike exceeds the mean logarithm by at most this, or
	spikeRoomSD  = 3.   // this many standard deviations of it, if that is more
	spikeShape   = 2.   // of the prior of the variance of the logarithm
	spikeRate    = .18  // of that prior: a standard deviation of .3
	spikeSmaller = 50.  // a deviation counts as at least 1/50 of the usual spike
	maxSpikeDays = 20
	minNightly   = 11 // recorded days of a daily spike, F1 .005 on planted_1min; two days precede the first recorded one

	minNarrow = .3 // smallest factor of σ

	spikeElsewhere = 8 // observations above which spikes have no special hours
	spikePerHour   = 2 // observations subtracted for an hour
)

// MissedSpike is a spike that did not occur in its hour, which has ended. Its zero value means none.
type MissedSpike struct {
	Output          int
	Score           float64 // −log₁₀ of the probability of so small a deviation
	From            time.Time
	Extreme, Usual  float64 // the hour's farthest value on the side of the spike, and the usual one
	Days, SpikeDays int     // days seen with this hour, and how many of them had the spike
}

// narrow returns the factor of σ for spikes.
func (s *lately) narrow(pace *Pace) float64 {
	if !pace.fine {
		return 1
	}
	return max(minNarrow, min(math.Exp(float64(s.always)-meanLog), 1))
}

// record learns the value y of a coordinate, whose usual mean and standard deviation are usual and sd. n is the weight
// of the previous observations. record reports whether y is a usual spike.
func (set *spikes) record(p *Profile, pace *Pace, output int, n, y, usual, sd float64) (comes bool) {
	far := math.Abs(y-usual) >= spikeFrom*sd
	if set.known[0].n == 0 && !far {
		return false
	}
	hours := localHours(p.calendar.Zone(), p.now)
	quarter := int64(math.Floor(4 * hours))
	covered := false
	for i := 0; i < len(set.known) && set.known[i].n > 0; i++ {
		s := &set.known[i]
		into := ((quarter-int64(s.slot))%quarters + quarters) % quarters
		day := (quarter - into - int64(s.slot)) / quarters
		if s.seen > 0 && (into > 3 || day != s.day) {
			if s.n > 1 {
				set.elsewhere = max(set.elsewhere, spikePerHour) - spikePerHour
			}
			if s.end(p, pace, output, usual, sd, quarter, set.anywhere()); s.expired() {
				copy(set.known[i:], set.known[i+1:])
				set.known[len(set.known)-1] = spike{}
				i--
				continue
			}
		}
		if into > 3 {
			continue
		}
		d := s.side(y - usual)
		if s.seen == 0 || float32(d) > s.largest {
			s.largest, s.value = float32(d), float32(y)
		}
		s.day, s.seen = day, min(s.seen+1, math.MaxUint16)
		same := d > 0
		covered = covered || same
		comes = comes || same && !set.anywhere() && s.habit(p.calendar.like(day)) && math.Log(d) <= float64(s.mean)+max(spikeRoom, spikeRoomSD*s.spread())
	}
	if far && !covered && n >= weightOf(pace.day, profileForgetting) {
		set.add(hours, y-usual)
	}
	return comes
}

// add adds a spike. If all entries are in use, it replaces the last one, unless that has recurred.
func (set *spikes) add(hours, d float64) {
	last := 0
	for last < len(set.known)-1 && set.known[last].n > 0 {
		last++
	}
	if set.known[last].n > 0 {
		set.elsewhere = min(set.elsewhere+1, 4*spikeElsewhere)
	}
	if set.known[last].n > 1 {
		return
	}
	begin := int64(math.Floor(4 * (hours - spikeBefore)))
	set.known[last] = spike{slot: uint8((begin%quarters + quarters) % quarters), below: d < 0, n: 1, mean: float32(math.Log(math.Abs(d)))}
}

func (set *spikes) anywhere() bool { return set.elsewhere > spikeElsewhere }

func (s *spike) side(d float64) float64 {
	if s.below {
		return -d
	}
	return d
}

// habit reports whether the spike usually occurs on a day.
func (s *spike) habit(day int64) bool {
	n, came, _ := s.came.totals()
	return s.n > spikeHabit && (2*came > n || s.came.expects(day, 0))
}

// expects reports whether the spike is expected on a day: as dayRecord.expects does or, in the first two weeks, if it
// occurred on each of at least minNightly recorded days.
func (s *spike) expects(day int64) bool {
	days, present, _ := s.came.totals()
	return s.came.expects(day, 0) || days >= minNightly && present == days
}

// expired reports whether the spike has not recurred within a week after its first day, or not for two weeks.
func (s *spike) expired() bool { return s.n == 1 && s.daysAway > 7 || s.daysAway > 14 }

// spread returns the standard deviation of Student's t of the next day's logarithm.
func (s *spike) spread() float64 {
	n := float64(s.n)
	return math.Sqrt((spikeRate + float64(s.squares)/2) / (spikeShape + n/2) * (1 + 1/n))
}

// end ends the current hour and learns it. If a usual spike is missing, end sets p.missed, except if anywhere.
func (s *spike) end(p *Profile, pace *Pace, output int, usual, sd float64, quarter int64, anywhere bool) {
	seen, largest := float64(s.seen), float64(s.largest)
	s.seen = 0
	if seen < spikeSeen*pace.day/24 {
		return
	}
	mean := float64(s.mean)
	came := largest >= max(minSpikeSD*sd, spikeShare*math.Exp(mean))
	endQuarter := s.day*quarters + int64(s.slot) + 4
	if !came && !anywhere && s.expects(p.calendar.like(s.day)) && quarter < endQuarter+4 {
		far := (mean - math.Log(max(largest, math.Exp(mean)/spikeSmaller))) / s.spread()
		score := minusLog10Tail(normalEquivalent(far, 2*spikeShape+float64(s.n)))
		if score > p.missed.Score {
			days, present, _ := s.came.totals()
			p.missed = MissedSpike{output, score, localTime(p.calendar.Zone(), float64(endQuarter-4)/4), float64(s.value), usual + s.side(math.Exp(mean)), days, present}
		}
	}
	s.daysAway++
	if s.came.record(p.calendar.like(s.day), came); !came {
		return
	}
	if s.daysAway = 0; s.n == maxSpikeDays {
		s.squares *= 1 - 1./maxSpikeDays
	}
	s.n = min(s.n+1, maxSpikeDays)
	d := float32(math.Log(largest)) - s.mean
	s.mean += d / float32(s.n)
	s.squares += d * (float32(math.Log(largest)) - s.mean)
}

// spikesForm encodes or decodes the spikes of a plan. They follow the rest of the plan, if there are any.
func (s Plan) spikesForm(c *compact.Codec) {
	found := slices.ContainsFunc(s, func(c coordinatePlan) bool { return c.spikes.known[0].n > 0 })
	if c.Writes && !found || !c.Writes && len(c.B) == 0 {
		return
	}
	for i := range s {
		set, n := &s[i].spikes, uint8(0)
		for int(n) < len(set.known) && set.known[n].n > 0 {
			n++
		}
		if compact.Bytes(c, &n, &set.elsewhere); int(n) > len(set.known) {
			c.Fail()
			return
		}
		for j := range set.known[:n] {
			set.known[j].form(c)
		}
	}
}

func (s *spike) form(c *compact.Codec) {
	runs, unused := s.seen > 0, false
	c.Bits(&s.below, &runs, &unused)
	compact.Bytes(c, &s.slot, &s.n, &s.daysAway)
	shorts(c, []*float32{&s.mean, &s.squares})
	s.came.form(c)
	if runs {
		compact.Signed(c, &s.day)
		compact.Unsigned(c, &s.seen)
		shorts(c, []*float32{&s.largest, &s.value})
	}
	const maxLog = 100 // more than the logarithm of the largest value
	c.Check(s.slot < quarters && s.n > 0 && s.n <= maxSpikeDays && math.Abs(float64(s.mean)) <= maxLog && s.squares >= 0 && s.squares <= 1e6 &&
		math.Abs(float64(s.largest)) <= 1e3*maxStandardized && math.Abs(float64(s.value)) <= 1e3*maxStandardized)
}
