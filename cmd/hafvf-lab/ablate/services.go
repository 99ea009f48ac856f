package ablate

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"hafvf/internal/median"
)

const (
	serviceDays  = 21
	servicesFrom = 1706486400. // Monday, 29 January 2024
	day          = 1440        // minutes
)

// draws draws random numbers.
type draws struct{ *rand.Rand }

func newDraws(seed, stream uint64) draws { return draws{rand.New(rand.NewPCG(seed, stream))} }

func (d draws) uniform(lo, hi float64) float64 { return lo + (hi-lo)*d.Float64() }
func (d draws) between(lo, hi int) int         { return lo + d.IntN(hi-lo) }

func (d draws) poisson(mean float64) float64 {
	return distuv.Poisson{Lambda: max(mean, 1e-9), Src: d}.Rand()
}

// ar returns a first-order autoregression.
func (d draws) ar(n int, phi, sd float64) []float64 {
	x := make([]float64, n)
	for i := 1; i < n; i++ {
		x[i] = phi*x[i-1] + sd*d.NormFloat64()
	}
	return x
}

// A service draws a metric of a service by the minute. load is 1 in the mean of a day, and less at the weekend.
type service struct {
	name string
	draw func(d draws, load []float64) []float64
	both bool // incidents are above and below
}

// serviceKinds have habits that are no incidents: collections of garbage, jobs, business hours, saw-teeth.
var serviceKinds = []service{
	{"latency", func(d draws, load []float64) []float64 {
		scale := d.uniform(.04, .09)
		return each(load, func(_ int, l float64) float64 { return scale * (1 + .15*(l-1)) * math.Exp(.18*d.NormFloat64()) })
	}, false},
	{"latency-gc", func(d draws, load []float64) []float64 {
		scale := d.uniform(.05, .1)
		return each(load, func(int, float64) float64 {
			x := scale * math.Exp(.15*d.NormFloat64())
			if d.Float64() < .002 {
				x *= d.uniform(2, 6) * math.Exp(.3*d.NormFloat64())
			}
			return x
		})
	}, false},
	{"latency-p99", func(d draws, load []float64) []float64 {
		scale, queue := d.uniform(.2, .4), d.ar(len(load), .9, .3)
		t := distuv.StudentsT{Sigma: 1, Nu: 3, Src: d}
		return each(load, func(i int, l float64) float64 {
			return scale*(1+.3*(l-1)) + .02*t.Rand() + .02*math.Abs(queue[i])
		})
	}, false},
	{"requests", func(d draws, load []float64) []float64 {
		scale, drift := d.uniform(80, 400), d.ar(len(load), .98, .012)
		return each(load, func(i int, l float64) float64 { return d.poisson(max(scale*l*math.Exp(drift[i]), 1)) })
	}, true},
	{"errors-few", func(d draws, load []float64) []float64 {
		scale, drift := d.uniform(.02, .15), d.ar(len(load), .99, .05)
		return each(load, func(i int, l float64) float64 { return d.poisson(scale * l * math.Exp(drift[i])) })
	}, false},
	{"errors-some", func(d draws, load []float64) []float64 {
		scale, gamma := d.uniform(2, 8), distuv.Gamma{Alpha: 3, Beta: 3, Src: d}
		return each(load, func(_ int, l float64) float64 { return d.poisson(scale * l * gamma.Rand()) })
	}, false},
	{"cpu-hourly-job", func(d draws, load []float64) []float64 {
		level, noise := d.uniform(20, 35), d.ar(len(load), .9, 1.2)
		return d.job(load, level, 8, noise, 60, d.IntN(50), 3, d.uniform(15, 30))
	}, false},
	{"cpu-nightly-job", func(d draws, load []float64) []float64 {
		level, noise := d.uniform(15, 30), d.ar(len(load), .95, 1)
		return d.job(load, level, 6, noise, day, d.between(60, 240), d.between(20, 60), d.uniform(30, 50))
	}, false},
	{"memory-saw", func(d draws, load []float64) []float64 {
		period, level := d.between(300, 700), d.uniform(40, 50)
		shift := d.IntN(period)
		return each(load, func(i int, _ float64) float64 {
			return level + 20*float64((i+shift)%period)/float64(period) + .4*d.NormFloat64()
		})
	}, false},
	{"instances", func(d draws, load []float64) []float64 {
		noise := 0.
		own := loadOf(10, .6, .7, len(load))
		return each(load, func(i int, _ float64) float64 {
			if i%30 == 0 {
				noise = .3 * d.NormFloat64()
			}
			n := math.Ceil(max(own[i]*6+noise, 1))
			if d.Float64() < .01 {
				n++
			}
			return n
		})
	}, true},
	{"business-hours", func(d draws, load []float64) []float64 {
		from, end, scale := d.uniform(7, 8.5), d.uniform(17.5, 19), d.uniform(20, 60)
		return each(load, func(i int, _ float64) float64 {
			hour := float64(i%day) / 60
			if hour < from || hour >= end || i/day%7 >= 5 {
				return 0
			}
			return d.poisson(scale * max(math.Sin((hour-6.5)/13*math.Pi), .1))
		})
	}, true},
	{"disk", func(d draws, load []float64) []float64 {
		level := d.uniform(30, 60)
		return each(load, func(int, float64) float64 {
			level += .0008 + .004*d.NormFloat64()
			return math.Round(100*(level+.02*d.NormFloat64())) / 100
		})
	}, false},
}

func each(load []float64, f func(i int, l float64) float64) []float64 {
	x := make([]float64, len(load))
	for i, l := range load {
		x[i] = f(i, l)
	}
	return x
}

// job returns a load of the processor, in percent, with a job of the given minutes in each period.
func (d draws) job(load []float64, level, amplitude float64, noise []float64, period, offset, minutes int, size float64) []float64 {
	return each(load, func(i int, l float64) float64 {
		x := level + amplitude*(l-1) + noise[i]
		if i%period >= offset && i%period < offset+minutes {
			x += size * (1 + .15*d.NormFloat64())
		}
		return max(0, min(x, 100))
	})
}

func loadOf(phase, amplitude, weekend float64, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = 1 + amplitude*math.Sin((float64(i%day)/60-phase)/24*2*math.Pi)
		if i/day%7 >= 5 {
			x[i] *= weekend
		}
	}
	return x
}

// services returns two services of each kind, with incidents, as means over the given number of minutes.
func services(seed uint64, minutes int) (drawn []*series) {
	const each = 2
	for k, kind := range serviceKinds {
		for j := range each {
			d := newDraws(seed, uint64(k*each+j))
			n := serviceDays * day
			x := kind.draw(d, loadOf(d.uniform(8, 11), d.uniform(.3, .6), d.uniform(.5, .9), n))
			s := &series{name: kind.name, tolerance: 60 * max(10, 4*float64(minutes))}
			timeOf := func(i int) float64 { return servicesFrom + 60*float64(min(i, n-1)/minutes*minutes) }
			d.addIncidents(x, kind.both, func(start, end int) {
				s.incidents = append(s.incidents, window{timeOf(start), timeOf(end - 1)})
				s.aftermath = append(s.aftermath, window{timeOf(start), timeOf(end - 1 + max(60, (end-start)/2))})
			})
			for i := 0; i < n; i += minutes {
				sum := 0.
				for _, v := range x[i : i+minutes] {
					sum += v
				}
				s.times, s.x = append(s.times, timeOf(i)), append(s.x, sum/float64(minutes))
			}
			s.countFrom = s.times[50]
			drawn = append(drawn, s)
		}
	}
	return drawn
}

var incidentMinutes = map[string][2]int{
	"surge": {15, 60}, "shift": {180, 1440}, "noisy": {60, 360}, "stuck": {60, 400}, "zero": {10, 60}, "leak": {240, 900}, "spikes": {30, 120},
}

// addIncidents adds incidents to x, from the fourth day on, and calls add for each.
func (d draws) addIncidents(x []float64, both bool, add func(start, end int)) {
	original := slices.Clone(x)
	sd := hourlySD(original)
	whole, lowest := !slices.ContainsFunc(original, func(v float64) bool { return v != math.Round(v) }), slices.Min(original)
	kinds := []string{"surge", "shift", "noisy", "stuck", "zero", "leak", "spikes"}
	for i := 3*day + d.IntN(2*day); i < len(x)-800; {
		kind := kinds[d.IntN(len(kinds))]
		if kind == "stuck" && repeats(original) > .2 || kind == "zero" && quantile(original[max(0, i-300):i], .1) <= 3*sd {
			kind = "surge"
		}
		length := d.between(incidentMinutes[kind][0], incidentMinutes[kind][1])
		size, sign := []float64{4, 8, 16}[d.IntN(3)]*sd, 1.
		if both && d.Float64() >= .6 {
			sign = -1
		}
		now := original[i:min(i+length, len(x))]
		middle := median.Of(slices.Clone(now))
		for k, v := range now {
			switch kind {
			case "surge":
				v += sign * size
			case "shift":
				v += .7 * sign * size
			case "noisy":
				v = middle + (1+size/sd/4)*(v-middle)
			case "stuck":
				v = original[i-1]
			case "zero":
				v = 0
			case "leak":
				v += size * float64(k) / float64(length-1)
			case "spikes":
				if d.Float64() < .25 {
					v += 1.5 * size
				}
			}
			if lowest >= 0 {
				v = max(v, 0)
			}
			if whole {
				v = math.Round(v)
			}
			x[i+k] = v
		}
		add(i, i+len(now))
		i += length + int(d.uniform(2, 7)*day)
	}
}

// hourlySD returns a robust standard deviation around the medians of the hours of the day.
func hourlySD(x []float64) float64 {
	var hours [24][]float64
	for i, v := range x {
		hours[i%day/60] = append(hours[i%day/60], v)
	}
	var medians [24]float64
	for h := range hours {
		medians[h] = median.Of(hours[h])
	}
	away := make([]float64, len(x))
	mean, squares := 0., 0.
	for i, v := range x {
		away[i] = math.Abs(v - medians[i%day/60])
		mean, squares = mean+v/float64(len(x)), squares+v*v/float64(len(x))
	}
	if sd := 1.4826 * median.Of(away); sd > 0 {
		return sd
	}
	return max(math.Sqrt(max(0, squares-mean*mean)), .5)
}

func repeats(x []float64) float64 {
	n := 0.
	for i := 1; i < len(x); i++ {
		if x[i] == x[i-1] {
			n++
		}
	}
	return n / float64(len(x)-1)
}

func quantile(x []float64, p float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return x[int(p*float64(len(x)-1))]
}
