package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"hafvf/internal/message"
)

// A Map has the alarms by key and time.
type Map struct {
	Columns int
	Step    string
	Ticks   []Tick
	Groups  []Group
	Fleet   Strip
	Shown   int // keys
	Left    int // keys with alarms that have no row
	Nested  bool
	// Groups that have no row, and their alarms.
	GroupsLeft, AlarmsLeft int

	Bars []Incident
}

// A Tick is a time on the axis of the map.
type Tick struct {
	At    float64 // percent
	Label string
	Class string // of those that narrow screens have no room for
}

// A Group is the keys of one prefix.
type Group struct {
	Name   string
	Keys   int // known
	Alarms int
	Strip
	Rows []KeyRow
	Left int // keys with alarms that have no row
	Open bool
}

// A KeyRow is a key of the map.
type KeyRow struct {
	Key    string
	Short  string // without what all keys of the group have in common
	ID     int
	Alarms int
	Label  string
	Series bool
	Strip
}

// A Strip is cells in a row, as the path of each class.
type Strip struct{ Paths []ClassPath }

// ClassPath are those of a class.
type ClassPath struct{ Class, Path string }

// steps are the widths of cells.
var steps = []time.Duration{
	time.Second, 5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 3 * time.Hour,
	4 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 2 * 24 * time.Hour, 7 * 24 * time.Hour, 28 * 24 * time.Hour, 364 * 24 * time.Hour, 3640 * 24 * time.Hour,
}

// wall is what the clock of the page shows at a time, as a time of UTC.
func (c *Collector) wall(t time.Time) time.Time {
	_, offset := t.In(c.zone).Zone()
	return t.Add(time.Duration(offset) * time.Second).UTC()
}

// grid is that of the clock, on which cells are days. The hour that the clock shows twice is once on the map.
func (c *Collector) grid() grid {
	first, last := c.wall(c.first), c.wall(c.last)
	if last.Before(first) { // both are in that hour
		first, last = last, first
	}
	return gridOf(first, last)
}

// offsets are those of the zone over the period in seconds, each with the Unix time from which on it holds.
func (c *Collector) offsets() (all [][2]int64) {
	at, last := c.first, c.last
	if c.live { // the page says when the run has ended
		now := time.Now()
		last = now.AddDate(1, 0, 0)
		if at.IsZero() {
			at = now
		}
	}
	for {
		at = at.In(c.zone)
		_, offset := at.Zone()
		all = append(all, [2]int64{at.Unix(), int64(offset)})
		_, next := at.ZoneBounds()
		if next.IsZero() || next.After(last) {
			return all
		}
		at = next
	}
}

// A grid divides the period into cells.
type grid struct {
	first   time.Time
	step    time.Duration
	columns int
}

func gridOf(first, last time.Time) grid {
	for _, step := range steps {
		start := first.Truncate(step)
		// Sub saturates at 292 years.
		if n := last.Unix()/int64(step.Seconds()) - start.Unix()/int64(step.Seconds()) + 1; n <= maxColumns {
			return grid{start.UTC(), step, int(n)}
		}
	}
	return grid{first.UTC(), time.Duration(math.MaxInt64), 1}
}

func (g grid) column(at int64) int {
	return min(max(int((at-g.first.Unix())/int64(g.step.Seconds())), 0), g.columns-1)
}

// percent is where a time is on the map.
func (g grid) percent(t time.Time) float64 {
	width := g.step.Seconds() * float64(g.columns)
	return min(max(100*float64(t.Unix()-g.first.Unix())/width, 0), 100)
}

func (g grid) ticks() (all []Tick) {
	end := g.first.Unix() + int64(g.step.Seconds())*int64(g.columns)
	span := time.Duration(end-g.first.Unix()) * time.Second
	layout := "2006-01-02"
	if span <= 3*24*time.Hour {
		layout = "01-02 15:04"
	}
	for i := range 7 {
		at := g.first.Unix() + int64(i)*int64(span.Seconds())/7
		t := fromUnix(at)
		if span > 7*24*time.Hour {
			t = t.Truncate(24 * time.Hour)
			if t.Before(g.first) {
				t = t.Add(24 * time.Hour)
			}
		}
		percent := g.percent(t)
		if n := len(all); n > 0 && percent < all[n-1].At+10 { // its label would lie on the one before
			continue
		}
		all = append(all, Tick{percent, t.Format(layout), [...]string{"", "fine", "mid", "fine"}[i%4]})
	}
	return all
}

// classOf is how dark a cell with that value is, by limits in a unit.
func classOf(v float64, limits []float64, unit float64) uint8 {
	for i, limit := range limits {
		if v < limit*unit {
			return uint8(i + 1)
		}
	}
	return uint8(len(limits) + 1)
}

var (
	scoreClasses = []float64{6, 10, 20, 50}
	countClasses = []float64{1.5, 2, 3, 5} // times the average of the row
)

// silentOnly is the class of a cell with nothing but silences.
const silentOnly = 9

// stripOf draws the classes of cells, 0 being none.
func stripOf(cells []uint8) (s Strip) {
	for class := uint8(1); class <= silentOnly; class++ {
		var b []byte
		for at := 0; at < len(cells); at++ {
			if cells[at] != class {
				continue
			}
			end := at + 1
			for end < len(cells) && cells[end] == class {
				end++
			}
			b = fmt.Appendf(b, "M%d 0h%dv1h-%dz", at, end-at, end-at)
			at = end - 1
		}
		if b != nil {
			s.Paths = append(s.Paths, ClassPath{"h" + strconv.Itoa(int(class)), string(b)})
		}
	}
	return s
}

// countStrip draws how many alarms several keys have, against the average of the row: a hundred
// keys have some alarm on every day.
func countStrip(counts []int) Strip {
	all := 0
	for _, n := range counts {
		all += n
	}
	average := max(float64(all)/float64(len(counts)), 1)
	cells := make([]uint8, len(counts))
	for i, n := range counts {
		if n > 0 {
			cells[i] = classOf(float64(n), countClasses, average)
		}
	}
	return stripOf(cells)
}

// prefixes returns the place behind each separator of a key.
func prefixes(name string) (ends []int) {
	for i := range len(name) {
		if (name[i] == '/' || name[i] == ':') && i > 0 && i < len(name)-1 {
			ends = append(ends, i)
		}
	}
	return ends
}

// group sets the groups of all keys: their prefixes at the greatest depth at which there are not
// too many groups to show, and more keys than groups.
func (c *Collector) group() {
	depths := 0
	ends := make([][]int, len(c.order))
	for i, k := range c.order {
		ends[i] = prefixes(k.name)
		depths = max(depths, min(len(ends[i]), 8))
	}
	prefix := func(i, depth int) string {
		if depth = min(depth, len(ends[i])); depth == 0 {
			return ""
		}
		return c.order[i].name[:ends[i][depth-1]]
	}
	depth := 0
	for d := 1; d <= depths; d++ {
		groups := map[string]bool{}
		for i := range c.order {
			groups[prefix(i, d)] = true
			if len(groups) > shownGroups {
				break
			}
		}
		if d > 1 && len(groups) > shownGroups || 2*len(groups) > len(c.order) {
			break
		}
		depth = d
	}
	for i, k := range c.order {
		k.group = prefix(i, depth)
	}
}

// addMap draws the alarms by key and time.
func (c *Collector) addMap(p *Page, happened []*key) {
	if len(happened) == 0 || c.first.IsZero() {
		return
	}
	c.group()
	g := c.grid()
	m := &Map{Columns: g.columns, Step: stepName(g.step), Ticks: g.ticks(), Shown: min(len(happened), shownKeys)}
	m.Left = len(happened) - m.Shown
	rows := map[*key]*keyCells{}
	for _, k := range happened[:m.Shown] {
		rows[k] = &keyCells{make([]uint8, g.columns), math.NaN()}
	}
	groups := c.groupCounts(g.columns)
	fleet := make([]int, g.columns)
	for i := range c.alarms {
		a := &c.alarms[i]
		if a.at == noTime {
			continue
		}
		column := g.column(c.wall(fromUnix(a.at)).Unix())
		fleet[column]++
		groups[a.key.group].counts[column]++
		if row := rows[a.key]; row != nil {
			row.add(a, column)
		}
	}
	for i, k := range happened[:m.Shown] {
		t := groups[k.group]
		t.Left--
		t.Rows = append(t.Rows, rows[k].row(k, i))
	}
	m.addGroups(groups)
	m.Fleet = countStrip(fleet)
	for i := range p.Incidents {
		one := &p.Incidents[i]
		end := one.End
		if end.IsZero() {
			end = c.last
		}
		one.Left = g.percent(c.wall(one.Start))
		one.Width = max(g.percent(c.wall(end))-one.Left, 100/float64(g.columns))
		one.Width = min(one.Width, 100-one.Left)
		m.Bars = append(m.Bars, *one)
	}
	p.Map = m
}

// groupCounts are a group and its alarms by column.
type groupCounts struct {
	Group
	counts []int
	weight float64
}

// groupCounts returns the groups that have alarms, by name, with all columns still empty.
func (c *Collector) groupCounts(columns int) map[string]*groupCounts {
	groups := map[string]*groupCounts{}
	for _, k := range c.order {
		if k.alarms == 0 {
			continue
		}
		t := groups[k.group]
		if t == nil {
			t = &groupCounts{Group: Group{Name: k.group}, counts: make([]int, columns)}
			groups[k.group] = t
		}
		t.weight += k.weight
		t.Alarms += k.alarms
		t.Left++
	}
	for _, k := range c.order {
		if t := groups[k.group]; t != nil {
			t.Keys++
		}
	}
	return groups
}

// addGroups adds the groups to the map, the heaviest first.
func (m *Map) addGroups(groups map[string]*groupCounts) {
	all := slices.SortedFunc(maps.Values(groups), func(a, b *groupCounts) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.Name, b.Name))
	})
	open := 0
	for i, t := range all {
		if i >= shownGroups && len(t.Rows) == 0 {
			m.GroupsLeft++
			m.AlarmsLeft += t.Alarms
			continue
		}
		t.Strip = countStrip(t.counts)
		names := make([]string, len(t.Rows))
		for k, row := range t.Rows {
			names[k] = row.Key
		}
		for k, name := range cutNames(names) {
			t.Rows[k].Short = name
		}
		open += len(t.Rows)
		t.Open = open <= openRows
		t.Name = shown(t.Name)
		if t.Name == `""` {
			t.Name = "no prefix"
		}
		m.Groups = append(m.Groups, t.Group)
	}
	m.Nested = len(all) > 1
}

// keyCells are the cells of a key, and the largest score of its alarms, NaN without one.
type keyCells struct {
	classes []uint8
	largest float64
}

func (r *keyCells) add(a *alarm, column int) {
	if s := a.weight(); a.kind != silent && !(r.largest >= s) {
		r.largest = s
	}
	switch class := classOf(a.weight(), scoreClasses, 1); {
	case a.kind == silent:
		if r.classes[column] == 0 {
			r.classes[column] = silentOnly
		}
	case r.classes[column] == silentOnly || class > r.classes[column]:
		r.classes[column] = class
	}
}

// row is what the map shows of the key.
func (r *keyCells) row(k *key, id int) KeyRow {
	says := message.Count(k.alarms, "alarm", "alarms")
	if !math.IsNaN(r.largest) {
		says += ", largest score " + number(r.largest)
	}
	if k.silences > 0 {
		says += ", " + message.Count(k.silences, "silence", "silences")
	}
	name := k.name
	if rest, ok := strings.CutPrefix(name, k.group); ok && k.group != "" {
		name = rest[1:]
	}
	return KeyRow{Key: shown(name), ID: id, Alarms: k.alarms, Label: says, Series: k.drawn(), Strip: stripOf(r.classes)}
}

func stepName(d time.Duration) string {
	if days := int(d / (24 * time.Hour)); days > 0 && d%(24*time.Hour) == 0 {
		return message.Count(days, "day", "days")
	}
	return message.Duration(d)
}
