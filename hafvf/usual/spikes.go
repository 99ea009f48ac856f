package usual

import (
	"math"
	"time"

	"hafvf/internal/compact"
)

// spikes are the largest deviations that come at the same hour of the day, each day or on the same days of the week, in
// streams whose steps are too fine for offsets of a Plan. The hour of a spike begins at a quarter and has the first one
// in its middle: the others may begin 22 minutes before or after that. One that comes as usual is scored and learned
// as what is usual without it. Another one, spikeFrom standard deviations away, is new. The logarithm of the largest
// deviation of an hour is normal: Student's t of the days that had it gives the score of a day without. If others come
// at more hours than are known, no hour is special: none is as usual, and none is missed.
type spikes struct {
	known     [4]spike // those that are, and behind them zero values
	elsewhere uint8    // observations of others, less spikePerHour for each hour since of one that has come again
}

// A spike is one of them. Its zero value is none.
type spike struct {
	slot  uint8 // quarter of the day with which its hour begins
	below bool  // it falls below what is usual
	n     uint8 // days that had it, up to mostSpiked
	away  uint8 // days since the last one of these
	// Of the logarithms of the largest deviations of these: the mean, and the sum of squares around it.
	mean, squares float32
	came          dayRecord
	day           int64   // of the running hour, since 1 January 1970
	seen          uint16  // observations in it
	most, value   float32 // the largest deviation in it on the side of the spike, and the value that has it
}

const (
	quarters     = 96   // of a day
	spikeBefore  = .375 // hours, of its hour before the first one, at least
	spikeFrom    = 5.   // standard deviations, of a new one
	spikeLeast   = 3.5  // standard deviations, of one that comes
	spikeShare   = .25  // of the usual largest deviation, of one that comes
	spikeSeen    = .9   // of the observations of an hour
	spikeHabit   = 2    // days after the first one, from which on one that comes is usual
	spikeRoom    = .7   // of the logarithm, up to which one is as usual; or
	spikeRoomSD  = 3.   // standard deviations of it
	spikeShape   = 2.   // of the prior of its variance
	spikeRate    = .18  // a standard deviation of .3
	spikeSmaller = 50.  // times: what is smaller counts as that
	mostSpiked   = 20

	spikeElsewhere = 8 // observations
	spikePerHour   = 2 // of these
)

// Missed is a spike that did not come at its hour, which is over. Its zero value is none.
type Missed struct {
	Output      int
	Score       float64 // −log₁₀ of the probability of so small a deviation
	From        time.Time
	Most, Usual float64 // the value of the hour that is farthest on the side of the spike, and what it usually is
	Days, Came  int     // of such hours, and how many of them had it
}

// note notes a value y of a coordinate where it is usual, with the standard deviation. n is the weight of the
// observations before. It reports whether that is a spike as usual.
func (all *spikes) note(p *Profile, pace *Pace, output int, n, y, usual, sd float64) (comes bool) {
	far := math.Abs(y-usual) >= spikeFrom*sd
	if all.known[0].n == 0 && !far {
		return false
	}
	hours := localHours(p.calendar.Zone(), p.now)
	quarter := int64(math.Floor(4 * hours))
	covered := false
	for i := 0; i < len(all.known) && all.known[i].n > 0; i++ {
		s := &all.known[i]
		into := ((quarter-int64(s.slot))%quarters + quarters) % quarters
		day := (quarter - into - int64(s.slot)) / quarters
		if s.seen > 0 && (into > 3 || day != s.day) {
			if s.n > 1 {
				all.elsewhere = max(all.elsewhere, spikePerHour) - spikePerHour
			}
			if s.end(p, pace, output, usual, sd, quarter, all.anywhere()); s.past() {
				copy(all.known[i:], all.known[i+1:])
				all.known[len(all.known)-1] = spike{}
				i--
				continue
			}
		}
		if into > 3 {
			continue
		}
		d := s.side(y - usual)
		if s.seen == 0 || float32(d) > s.most {
			s.most, s.value = float32(d), float32(y)
		}
		s.day, s.seen = day, min(s.seen+1, math.MaxUint16)
		same := d > 0
		covered = covered || same
		comes = comes || same && !all.anywhere() && s.habit(p.calendar.like(day)) && math.Log(d) <= float64(s.mean)+max(spikeRoom, spikeRoomSD*s.spread())
	}
	if far && !covered && n >= weightOf(pace.day, profileForgetting) {
		all.add(hours, y-usual)
	}
	return comes
}

// add adds a spike in place of the last one, if that has not come again.
func (all *spikes) add(hours, d float64) {
	last := 0
	for last < len(all.known)-1 && all.known[last].n > 0 {
		last++
	}
	if all.known[last].n > 0 {
		all.elsewhere = min(all.elsewhere+1, 4*spikeElsewhere)
	}
	if all.known[last].n > 1 {
		return
	}
	begin := int64(math.Floor(4 * (hours - spikeBefore)))
	all.known[last] = spike{slot: uint8((begin%quarters + quarters) % quarters), below: d < 0, n: 1, mean: float32(math.Log(math.Abs(d)))}
}

func (all *spikes) anywhere() bool { return all.elsewhere > spikeElsewhere }

func (s *spike) side(d float64) float64 {
	if s.below {
		return -d
	}
	return d
}

// habit reports whether it usually comes on a day.
func (s *spike) habit(day int64) bool {
	n, came, _ := s.came.all()
	return s.n > spikeHabit && (2*came > n || s.came.expects(day, 0))
}

// past reports whether it has not come again within a week, or not for two.
func (s *spike) past() bool { return s.n == 1 && s.away > 7 || s.away > 14 }

// spread is the standard deviation of the logarithm of the next largest deviation, as that of Student's t.
func (s *spike) spread() float64 {
	n := float64(s.n)
	return math.Sqrt((spikeRate + float64(s.squares)/2) / (spikeShape + n/2) * (1 + 1/n))
}

// end ends the running hour. If it comes usually and has not come, p has it as missed, unless they come anywhere.
func (s *spike) end(p *Profile, pace *Pace, output int, usual, sd float64, quarter int64, anywhere bool) {
	seen, most := float64(s.seen), float64(s.most)
	s.seen = 0
	if seen < spikeSeen*pace.day/24 {
		return
	}
	mean := float64(s.mean)
	came := most >= max(spikeLeast*sd, spikeShare*math.Exp(mean))
	over := s.day*quarters + int64(s.slot) + 4
	if !came && !anywhere && s.came.expects(p.calendar.like(s.day), 0) && quarter < over+4 {
		far := (mean - math.Log(max(most, math.Exp(mean)/spikeSmaller))) / s.spread()
		score := minusLog10Tail(normalEquivalent(far, 2*spikeShape+float64(s.n)))
		if score > p.missed.Score {
			days, had, _ := s.came.all()
			p.missed = Missed{output, score, localTime(p.calendar.Zone(), float64(over-4)/4), float64(s.value), usual + s.side(math.Exp(mean)), days, had}
		}
	}
	s.away++
	if s.came.note(p.calendar.like(s.day), came); !came {
		return
	}
	if s.away = 0; s.n == mostSpiked {
		s.squares *= 1 - 1./mostSpiked
	}
	s.n = min(s.n+1, mostSpiked)
	d := float32(math.Log(most)) - s.mean
	s.mean += d / float32(s.n)
	s.squares += d * (float32(math.Log(most)) - s.mean)
}

// spikesForm is how the spikes of a plan are encoded, behind the rest and if there are any.
func (s Plan) spikesForm(c *compact.Codec) {
	any := false
	for i := range s {
		any = any || s[i].spikes.known[0].n > 0
	}
	if c.Writes && !any || !c.Writes && len(c.B) == 0 {
		return
	}
	for i := range s {
		all, n := &s[i].spikes, uint8(0)
		for int(n) < len(all.known) && all.known[n].n > 0 {
			n++
		}
		if compact.Bytes(c, &n, &all.elsewhere); int(n) > len(all.known) {
			c.Fail()
			return
		}
		for j := range all.known[:n] {
			all.known[j].form(c)
		}
	}
}

func (s *spike) form(c *compact.Codec) {
	runs, none := s.seen > 0, false
	c.Bits(&s.below, &runs, &none)
	compact.Bytes(c, &s.slot, &s.n, &s.away)
	shorts(c, []*float32{&s.mean, &s.squares})
	s.came.form(c)
	if runs {
		compact.Signed(c, &s.day)
		compact.Unsigned(c, &s.seen)
		shorts(c, []*float32{&s.most, &s.value})
	}
	const most = 100 // more than the logarithm of the bound of values
	c.Check(s.slot < quarters && s.n > 0 && s.n <= mostSpiked && math.Abs(float64(s.mean)) <= most && s.squares >= 0 && s.squares <= 1e6 &&
		math.Abs(float64(s.most)) <= 1e3*maxStandardized && math.Abs(float64(s.value)) <= 1e3*maxStandardized)
}
