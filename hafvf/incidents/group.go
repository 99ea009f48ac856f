package incidents

import (
	"cmp"
	"hash/maphash"
	"math"
	"slices"
	"sort"
	"strings"
	"time"
	"unicode/utf8"

	"hafvf/internal/special"
)

const (
	second = moment(time.Second)
	hour   = moment(time.Hour)
	day    = 24 * hour
	memory = 28 * day // of the learned rates

	maxShape  = 3.      // of a rate
	maxGroups = 16      // groups of a key; a deeper key keeps the widest groups
	maxRecent = 1 << 15 // alarms that a group stores, the latest
)

// A group is the set of keys with a prefix or labels in common. The name of the fleet is empty.
type group struct {
	name    string
	around  []*group // the groups directly around it: one, or the two labels of a pair
	start   moment   // when it began
	allowed float64  // alarms per second, the sum over its keys
	keys    int
	begun   bool   // it has had minKeys keys
	keyHash uint64 // sum of the hashes of its keys, which identifies groups with the same keys
	step    moment // the longest step of a key that it has had

	decayedAt moment      // time up to which n is decayed
	n         [24]float64 // alarms outside incidents, by hour of the day
	recent    recent
	rate      rate // at the alarm that asks
}

// A groupPath is the name of a group of a key, with the indices of the groups directly around it.
type groupPath struct {
	name   string
	around []int
}

// groupPaths returns the groups of a key. The fleet is first, and each group follows the groups around it.
func (f *Fleet) groupPaths(key string) []groupPath {
	if len(f.cfg.By) > 0 {
		return labelPaths(key, f.cfg.By)
	}
	groups := []groupPath{{name: ""}}
	for i, r := range key {
		if i > 0 && len(groups) < maxGroups && strings.ContainsRune(f.cfg.Separators, r) {
			groups = append(groups, groupPath{key[:i], []int{len(groups) - 1}})
		}
	}
	return groups
}

// within reports whether a group is a proper part of another, by their keys.
func (f *Fleet) within(part, whole string) bool {
	if p, w := f.groups[part], f.groups[whole]; p != nil && w != nil && p.keys == w.keys && p.keyHash == w.keyHash {
		return false // the same keys under two names
	}
	return part != whole && f.covers(whole, part)
}

// covers reports whether a group has all keys of another: because of its name, or of the present keys of groups by
// labels.
func (f *Fleet) covers(whole, part string) bool {
	if len(f.cfg.By) == 0 {
		return f.common(whole, part) == whole
	}
	if whole == "" || whole == part || slices.Contains(labelsOf(part), whole) {
		return true
	}
	w, p := f.groups[whole], f.groups[part]
	switch {
	case w == nil || p == nil || w.keys < p.keys:
		return false
	case w.keys == p.keys:
		return w.keyHash == p.keyHash
	}
	pair := [2]string{whole, part}
	covers, known := f.covering[pair]
	if !known {
		covers = true
		for _, k := range f.keys {
			if covers = !slices.Contains(k.groups, p) || slices.Contains(k.groups, w); !covers {
				break
			}
		}
		f.covering[pair] = covers
	}
	return covers
}

// common returns the most specific group that contains both groups.
func (f *Fleet) common(a, b string) string {
	if len(f.cfg.By) > 0 {
		return f.commonOfLabels(a, b)
	}
	n := 0 // length of the common prefix in bytes
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	for n > 0 && !(f.endsAt(a, n) && f.endsAt(b, n)) {
		n--
	}
	return a[:n]
}

// endsAt reports whether the first n bytes of a prefix are the prefix itself or a group around it.
func (f *Fleet) endsAt(group string, n int) bool {
	if n == len(group) {
		return true
	}
	r, _ := utf8.DecodeRuneInString(group[n:])
	return utf8.RuneStart(group[n]) && strings.ContainsRune(f.cfg.Separators, r)
}

// enter adds a key to its groups.
func (f *Fleet) enter(k *key, t moment) {
	for _, p := range f.groupPaths(k.name) {
		g := f.groups[p.name]
		if g == nil {
			g = &group{name: p.name, start: t, decayedAt: t}
			for _, i := range p.around {
				g.around = append(g.around, k.groups[i])
			}
			f.groups[p.name] = g
		}
		g.allowed += k.allowed
		g.keys++
		g.keyHash += hashKey(k.name)
		g.step = max(g.step, k.step)
		k.groups = append(k.groups, g)
		if !g.begun && g.keys >= f.minKeys(g) {
			f.begin(g, t)
		}
	}
	clear(f.covering)
}

// leave removes a key from its groups. A group is removed with its last key.
func (f *Fleet) leave(k *key) {
	for i, g := range k.groups {
		g.recent.forget(k, i)
		g.keys--
		g.keyHash -= hashKey(k.name)
		g.allowed -= k.allowed
		if g.keys == 0 {
			delete(f.groups, g.name)
		}
	}
	clear(f.covering)
}

// minKeys returns the number of keys that a group needs to learn, and to be asked about.
func (f *Fleet) minKeys(g *group) int {
	if len(f.cfg.By) > 0 && g.name != "" {
		return minGroupKeys
	}
	return 1
}

// begin starts the learning of a group, with the recent alarms of the fleet.
func (f *Fleet) begin(g *group, t moment) {
	g.begun, g.start, g.decayedAt = true, t, t
	recent := f.groups[""].recent
	if g.name == "" || f.minKeys(g) == 1 {
		return // it has no alarms before its first key
	}
	for _, a := range recent.alarms[recent.first:] {
		if a.key == nil {
			continue
		}
		if i := slices.Index(a.key.groups, g); i >= 0 && a.takenAt > f.now-maxWindowSteps*g.step {
			g.recent.add(a, i, maxWindowSteps*g.step)
		}
	}
}

var setSeed = maphash.MakeSeed()

func hashKey(key string) uint64 { return maphash.String(setSeed, key) }

// asks reports whether an alarm of a key asks in the key's i-th group: the group has enough keys, and not the same keys
// as an earlier group of the key.
func (f *Fleet) asks(k *key, i int) bool {
	g := k.groups[i]
	return g.keys >= f.minKeys(g) && (len(f.cfg.By) == 0 || !slices.ContainsFunc(k.groups[:i], func(o *group) bool { return o.keys == g.keys && o.keyHash == g.keyHash }))
}

// parent returns the smallest of the groups directly around g.
func (g *group) parent() *group {
	return slices.MinFunc(g.around, func(a, b *group) int { return cmp.Compare(a.keys, b.keys) })
}

func (g *group) decay(t moment) {
	if t <= g.decayedAt {
		return
	}
	v := special.Exp(-t.seconds(g.decayedAt) / memory.seconds(0))
	for h := range g.n {
		g.n[h] *= v
	}
	g.decayedAt = t
}

// wall returns the local time at t, in nanoseconds since 1970.
func (f *Fleet) wall(t moment) moment {
	if f.cfg.Zone == time.UTC {
		return t
	}
	_, offset := time.Unix(0, int64(t)).In(f.cfg.Zone).Zone()
	return t + moment(offset)*second
}

// within returns the time since the last multiple of unit.
func (t moment) within(unit moment) moment { return ((t % unit) + unit) % unit }

// A rate is the Gamma posterior of the rate of a group's alarms.
type rate struct {
	mean  float64 // per second
	shape float64
}

// learn computes the rates of the groups of a key at t.
func (f *Fleet) learn(k *key, t moment) {
	wall := f.wall(t)
	h := wall.within(day) / hour
	begin := t - wall.within(hour)
	q := special.Exp(-float64(day) / float64(memory))
	for i, g := range k.groups {
		g.decay(t)
		prior := g.allowed
		if i > 0 {
			parent := g.parent()
			prior *= parent.rate.mean / parent.allowed
		}
		// The same hour of earlier days counts with a weight that decreases with age.
		days := 0.
		if begin > g.start {
			days = float64((begin - g.start) / day)
		}
		exposure := hour.seconds(0)*q*(1-math.Pow(q, days))/(1-q) + t.seconds(max(begin, g.start))
		g.rate = rate{(1 + g.n[h]) / (1/prior + exposure), min(1+g.n[h], maxShape)}
	}
}

// fleetRate returns the rate of the fleet over all hours, per second.
func (f *Fleet) fleetRate() float64 {
	n, root := 1., f.groups[""]
	for _, v := range root.n {
		n += v
	}
	m := memory.seconds(0)
	return n / (1/root.allowed + m*-math.Expm1(-max(f.now.seconds(root.start), 0)/m))
}

// count adds weight to the alarm counts of the groups of a, in the hour of t.
func (f *Fleet) count(a *alarm, t moment, weight float64) {
	h := f.wall(t).within(day) / hour
	for _, g := range a.key.groups {
		if g.begun {
			g.decay(t)
			g.n[h] = max(0, g.n[h]+weight)
		}
	}
}

// surprise returns −log₁₀ P(N ≥ c) for a negative binomial N, a Poisson count with a Gamma rate. If the result is below
// minScore, it may return 0 early.
func surprise(c int, mean, shape, minScore float64) float64 {
	n := float64(c)
	if !(n > mean) {
		return 0
	}
	x := mean / (shape + mean)
	first := special.LgammaDelta(shape, n) - special.LgammaDelta(1, n) + shape*special.Log(shape/(shape+mean)) + n*special.Log(x)
	if -first < minScore*math.Ln10 {
		return 0 // the tail is larger than its first term
	}
	total, term := 1., 1.
	for k := n; term > 1e-12*total; k++ {
		term *= (shape + k) / (k + 1) * x
		total += term
	}
	return max(0, -(first+special.Log(total))/math.Ln10)
}

// recent stores the alarms of a group in the last 32 steps, in the order of processing, with the reports that an episode
// is worse. It counts the keys that have alarmed since a moment in logarithmic time: a Fenwick tree over the positions
// has a 1 for the latest alarm of every key that is no such report.
type recent struct {
	alarms []*alarm
	tree   []int32 // at index i, counted from 1, the sum of the last i&−i entries up to i
	base   int     // position of alarms[0]
	first  int     // index of the first alarm that is still recent
}

func (r *recent) add(a *alarm, level int, duration moment) {
	for r.first < len(r.alarms) && (r.alarms[r.first].takenAt <= a.takenAt-duration || len(r.alarms)-r.first >= maxRecent) {
		r.drop(level)
	}
	if r.first > 16 && 2*r.first > len(r.alarms) {
		r.compact(level)
	}
	k := a.key
	if k.latest == nil {
		k.latest = slices.Repeat([]int{-1}, len(k.groups))
	}
	if r.alarms = append(r.alarms, a); a.worse() {
		r.grow(0)
		return
	}
	if prev := k.latest[level]; prev >= 0 {
		r.adjust(prev-r.base, -1)
	}
	k.latest[level] = r.base + len(r.alarms) - 1
	r.grow(1)
}

// drop removes the first alarm.
func (r *recent) drop(level int) {
	if k := r.alarms[r.first].key; k != nil && k.latest[level] == r.base+r.first {
		k.latest[level] = -1
	}
	r.alarms[r.first] = nil
	r.first++
}

// compact frees the memory of dropped alarms.
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

// grow appends the entry v to the tree.
func (r *recent) grow(v int32) {
	i := len(r.tree) + 1
	for j := i - 1; j > i-i&-i; j -= j & -j {
		v += r.tree[j-1]
	}
	r.tree = append(r.tree, v)
}

func (r *recent) adjust(index int, delta int32) {
	for i := index + 1; i <= len(r.tree); i += i & -i {
		r.tree[i-1] += delta
	}
}

func (r *recent) sum(n int) (v int) {
	for ; n > 0; n -= n & -n {
		v += int(r.tree[n-1])
	}
	return v
}

// after returns the index of the first alarm later than t.
func (r *recent) after(t moment) int {
	return r.first + sort.Search(len(r.alarms)-r.first, func(i int) bool { return r.alarms[r.first+i].takenAt > t })
}

// since returns the selected alarms later than t.
func (r *recent) since(t moment, selected func(*alarm) bool) (alarms []*alarm) {
	for _, a := range r.alarms[r.after(t):] {
		if a.key != nil && selected(a) {
			alarms = append(alarms, a)
		}
	}
	return alarms
}

// distinct returns the number of keys with an alarm later than t.
func (r *recent) distinct(t moment) int { return r.sum(len(r.tree)) - r.sum(r.after(t)) }

// forget removes the key from its alarms. Their positions remain, without a key.
func (r *recent) forget(k *key, level int) {
	for i := r.first; i < len(r.alarms); i++ {
		if a := r.alarms[i]; a.key == k {
			if k.latest[level] == r.base+i {
				r.adjust(i, -1)
			}
			r.alarms[i] = &alarm{takenAt: a.takenAt}
		}
	}
}
