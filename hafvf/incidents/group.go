package incidents

import (
	"math"
	"slices"
	"sort"
	"strings"
	"time"

	"hafvf/internal/special"
)

const (
	second = moment(time.Second)
	hour   = moment(time.Hour)
	day    = 24 * hour
	memory = 28 * day // of the learned rates

	shapeMost = 3.      // of a rate
	levels    = 16      // groups of a key, at most: the widest of a deeper one
	crowd     = 1 << 15 // alarms that a group keeps, at most: the latest
)

// A group is the keys with a prefix in common. The name of the fleet is empty.
type group struct {
	name    string
	since   moment  // when its first key was registered
	allowed float64 // alarms per second, the sum over its keys
	keys    int
	step    moment // the longest that a key of it has had

	at     moment      // of the counts, which decay
	n      [24]float64 // alarms outside of incidents, by hour of the day
	recent recent
}

// prefixes calls visit with the groups of a key, the fleet first.
func (f *Fleet) prefixes(name string, visit func(prefix string)) {
	visit("")
	n := 1
	if len(f.cfg.By) > 0 {
		path := labelled(name, f.cfg.By)
		labelEnds(path, func(length int) {
			if n++; n <= levels {
				visit(path[:length])
			}
		})
		return
	}
	for i, r := range name {
		if n == levels {
			return
		}
		if i > 0 && strings.ContainsRune(f.cfg.Separators, r) {
			visit(name[:i])
			n++
		}
	}
}

// common is the most specific group that has two groups.
func (f *Fleet) common(a, b string) string {
	if len(a) > len(b) {
		a, b = b, a
	}
	within := func(prefix string) bool {
		if !strings.HasPrefix(b, prefix) {
			return false
		}
		if len(b) == len(prefix) || prefix == "" {
			return true
		}
		for _, r := range b[len(prefix):] {
			return strings.ContainsRune(f.cfg.Separators, r)
		}
		return true
	}
	best := ""
	if len(f.cfg.By) > 0 {
		labelEnds(a, func(length int) {
			if b == a[:length] || strings.HasPrefix(b, a[:length]+",") {
				best = a[:length]
			}
		})
		return best
	}
	if within(a) {
		return a
	}
	f.prefixes(a, func(prefix string) {
		if within(prefix) {
			best = prefix
		}
	})
	return best
}

// enter puts a key into its groups.
func (f *Fleet) enter(k *key, at moment) {
	f.prefixes(k.name, func(prefix string) {
		g := f.groups[prefix]
		if g == nil {
			g = &group{name: prefix, since: at, at: at}
			f.groups[prefix] = g
		}
		g.since = min(g.since, at)
		g.allowed += k.allowed
		g.keys++
		g.step = max(g.step, k.step)
		k.groups = append(k.groups, g)
	})
	f.root = k.groups[0]
}

func (g *group) decay(t moment) {
	if t <= g.at {
		return
	}
	v := special.Exp(-t.seconds(g.at) / memory.seconds(0))
	for h := range g.n {
		g.n[h] *= v
	}
	g.at = t
}

// wall is what the clock of the zone shows at a moment.
func (f *Fleet) wall(t moment) moment {
	if f.cfg.Zone == time.UTC {
		return t
	}
	_, offset := time.Unix(0, int64(t)).In(f.cfg.Zone).Zone()
	return t + moment(offset)*second
}

// within is how far t is into its unit of time.
func (t moment) within(unit moment) moment { return ((t % unit) + unit) % unit }

// A rate is the Gamma of a group's alarms.
type rate struct {
	mean  float64 // per second
	shape float64
}

// learned returns the rates of the groups of a key at a moment, the fleet first.
func (f *Fleet) learned(k *key, t moment) []rate {
	wall := f.wall(t)
	h := wall.within(day) / hour
	begin := t - wall.within(hour)
	q := special.Exp(-float64(day) / float64(memory))
	f.rates = f.rates[:0]
	for i, g := range k.groups {
		g.decay(t)
		prior := g.allowed
		if i > 0 {
			prior *= f.rates[i-1].mean / k.groups[i-1].allowed
		}
		// Earlier days had this hour, and weigh less the longer they are ago.
		days := 0.
		if begin > g.since {
			days = float64((begin - g.since) / day)
		}
		exposure := hour.seconds(0)*q*(1-math.Pow(q, days))/(1-q) + t.seconds(max(begin, g.since))
		f.rates = append(f.rates, rate{(1 + g.n[h]) / (1/prior + exposure), min(1+g.n[h], shapeMost)})
	}
	return f.rates
}

// fleetRate is the rate of the fleet whatever the hour, per second.
func (f *Fleet) fleetRate() float64 {
	n := 1.
	for _, v := range f.root.n {
		n += v
	}
	m := memory.seconds(0)
	return n / (1/f.root.allowed + m*-math.Expm1(-max(f.at.seconds(f.root.since), 0)/m))
}

// count adds weight to the alarms that the groups of an alarm have in the hour of a moment.
func (f *Fleet) count(a *alarm, t moment, weight float64) {
	h := f.wall(t).within(day) / hour
	for _, g := range a.key.groups {
		g.decay(t)
		g.n[h] = max(0, g.n[h]+weight)
	}
}

// surprise is −log₁₀ P(N ≥ c) of the negative binomial N, a Poisson count whose rate is Gamma. Where
// that is below least it returns 0 early.
func surprise(c int, mean, shape, least float64) float64 {
	n := float64(c)
	if !(n > mean) {
		return 0
	}
	x := mean / (shape + mean)
	first := special.LgammaDelta(shape, n) - special.LgammaDelta(1, n) + shape*special.Log(shape/(shape+mean)) + n*special.Log(x)
	if -first < least*math.Ln10 {
		return 0 // the tail is larger than its first term
	}
	total, term := 1., 1.
	for k := n; term > 1e-12*total; k++ {
		term *= (shape + k) / (k + 1) * x
		total += term
	}
	return max(0, -(first+special.Log(total))/math.Ln10)
}

// recent is the alarms of a group in the last 32 steps, by the time at which they were taken. It
// counts the keys that have alarmed since a moment in logarithmic time: of every key the latest
// alarm counts, by a Fenwick tree over the positions.
type recent struct {
	alarms []*alarm
	tree   []int32 // of index i, the sum of the last i&−i entries up to i, from 1
	base   int     // position of alarms[0]
	first  int     // index of the first that is still recent
}

func (r *recent) add(a *alarm, level int, keep moment) {
	for r.first < len(r.alarms) && (r.alarms[r.first].at <= a.at-keep || len(r.alarms)-r.first >= crowd) {
		r.drop(level)
	}
	if r.first > 16 && 2*r.first > len(r.alarms) {
		r.compact(level)
	}
	k := a.key
	if k.latest == nil {
		k.latest = slices.Repeat([]int{-1}, len(k.groups))
	}
	if was := k.latest[level]; was >= 0 {
		r.tick(was-r.base, -1)
	}
	k.latest[level] = r.base + len(r.alarms)
	r.alarms = append(r.alarms, a)
	r.grow(1)
}

// drop drops the first alarm.
func (r *recent) drop(level int) {
	if k := r.alarms[r.first].key; k != nil && k.latest[level] == r.base+r.first {
		k.latest[level] = -1
	}
	r.alarms[r.first] = nil
	r.first++
}

// compact gives the room of dropped alarms back.
func (r *recent) compact(level int) {
	r.alarms = append(r.alarms[:0:0], r.alarms[r.first:]...)
	r.base, r.first, r.tree = r.base+r.first, 0, r.tree[:0]
	for i, a := range r.alarms {
		v := int32(0)
		if a.key != nil && a.key.latest[level] == r.base+i {
			v = 1
		}
		r.grow(v)
	}
}

// grow appends an entry to the tree.
func (r *recent) grow(v int32) {
	i := len(r.tree) + 1
	for j := i - 1; j > i-i&-i; j -= j & -j {
		v += r.tree[j-1]
	}
	r.tree = append(r.tree, v)
}

func (r *recent) tick(index int, by int32) {
	for i := index + 1; i <= len(r.tree); i += i & -i {
		r.tree[i-1] += by
	}
}

func (r *recent) sum(n int) (v int) {
	for ; n > 0; n -= n & -n {
		v += int(r.tree[n-1])
	}
	return v
}

// after returns the index of the first alarm later than a moment.
func (r *recent) after(t moment) int {
	return r.first + sort.Search(len(r.alarms)-r.first, func(i int) bool { return r.alarms[r.first+i].at > t })
}

// distinct is the number of keys with an alarm later than a moment.
func (r *recent) distinct(t moment) int { return r.sum(len(r.tree)) - r.sum(r.after(t)) }

// forget takes the alarms of a key out. Their places stay, without a key.
func (r *recent) forget(k *key, level int) {
	for i := r.first; i < len(r.alarms); i++ {
		if a := r.alarms[i]; a.key == k {
			if k.latest[level] == r.base+i {
				r.tick(i, -1)
			}
			r.alarms[i] = &alarm{at: a.at}
		}
	}
}
