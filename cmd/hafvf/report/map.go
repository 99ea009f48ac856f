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

// A Map shows the alarms by key and time.
type Map struct {
	Columns int
	Step    string
	Ticks   []Tick
	Groups  []Group
	Fleet   Strip
	Shown   int // keys with a row
	Left    int // keys with alarms and no row
	Nested  bool
	// Groups without a row, and the number of their alarms.
	GroupsLeft, AlarmsLeft int

	Bars []Incident
}

// A Tick is a time on the axis of the map.
type Tick struct {
	At    float64 // percent of the width
	Label string
	Class string // CSS class of ticks that narrow screens hide
}

// A Group is the keys with a common prefix.
type Group struct {
	Name   string
	Keys   int // all known keys
	Alarms int
	Strip
	Rows []KeyRow
	Left int // keys with alarms that have no row
	Open bool
}

// A KeyRow is the row of a key.
type KeyRow struct {
	Key    string
	Short  string // key without the parts that all keys of the group share
	ID     int
	Alarms int
	Label  string
	Series bool
	Strip
}

// A Strip is a row of cells, as an SVG path for each class.
type Strip struct{ Paths []ClassPath }

// A ClassPath is the SVG path of the cells of a class.
type ClassPath struct{ Class, Path string }

// steps are the possible widths of cells.
var steps = []time.Duration{
	time.Second, 5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 3 * time.Hour,
	4 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 2 * 24 * time.Hour, 7 * 24 * time.Hour, 28 * 24 * time.Hour, 364 * 24 * time.Hour, 3640 * 24 * time.Hour,
}

// wall returns the local time of t in the page's zone, as if it were UTC.
func (c *Collector) wall(t time.Time) time.Time {
	_, offset := t.In(c.zone).Zone()
	return t.Add(time.Duration(offset) * time.Second).UTC()
}

// grid returns the grid of local times, so that cells can be local days. An hour that occurs twice is on the map
// once.
func (c *Collector) grid() grid {
	first, last := c.wall(c.first), c.wall(c.last)
	if last.Before(first) { // both are in the repeated hour
		first, last = last, first
	}
	return gridOf(first, last)
}

// offsets returns the zone's offsets over the period: the Unix time from which each applies, and the offset in
// seconds.
func (c *Collector) offsets() (offsets [][2]int64) {
	t, last := c.first, c.last
	if c.live { // the page shows the end of the run, which is later
		now := time.Now()
		last = now.AddDate(1, 0, 0)
		if t.IsZero() {
			t = now
		}
	}
	for {
		t = t.In(c.zone)
		_, offset := t.Zone()
		offsets = append(offsets, [2]int64{t.Unix(), int64(offset)})
		_, next := t.ZoneBounds()
		if next.IsZero() || next.After(last) {
			return offsets
		}
		t = next
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

func (g grid) column(seconds int64) int {
	return min(max(int((seconds-g.first.Unix())/int64(g.step.Seconds())), 0), g.columns-1)
}

// percent returns the position of a time on the map, from 0 to 100.
func (g grid) percent(t time.Time) float64 {
	width := g.step.Seconds() * float64(g.columns)
	return min(max(100*float64(t.Unix()-g.first.Unix())/width, 0), 100)
}

func (g grid) ticks() (ticks []Tick) {
	end := g.first.Unix() + int64(g.step.Seconds())*int64(g.columns)
	span := time.Duration(end-g.first.Unix()) * time.Second
	layout := "2006-01-02"
	if span <= 3*24*time.Hour {
		layout = "01-02 15:04"
	}
	for i := range 7 {
		seconds := g.first.Unix() + int64(i)*int64(span.Seconds())/7
		t := fromUnix(seconds)
		if span > 7*24*time.Hour {
			t = t.Truncate(24 * time.Hour)
			if t.Before(g.first) {
				t = t.Add(24 * time.Hour)
			}
		}
		percent := g.percent(t)
		if n := len(ticks); n > 0 && percent < ticks[n-1].At+10 { // its label would overlap the previous one
			continue
		}
		ticks = append(ticks, Tick{percent, t.Format(layout), [...]string{"", "fine", "mid", "fine"}[i%4]})
	}
	return ticks
}

// classOf returns the class of a value: 1 plus the number of limits, times unit, that it reaches.
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
	countClasses = []float64{1.5, 2, 3, 5} // multiples of the row's average
)

// silentOnly is the class of a cell with only silences.
const silentOnly = 9

// stripOf returns the strip of cells with the given classes; 0 is an empty cell.
func stripOf(cells []uint8) (s Strip) {
	for class := uint8(1); class <= silentOnly; class++ {
		var b []byte
		for start := 0; start < len(cells); start++ {
			if cells[start] != class {
				continue
			}
			end := start + 1
			for end < len(cells) && cells[end] == class {
				end++
			}
			b = fmt.Appendf(b, "M%d 0h%dv1h-%dz", start, end-start, end-start)
			start = end - 1
		}
		if b != nil {
			s.Paths = append(s.Paths, ClassPath{"h" + strconv.Itoa(int(class)), string(b)})
		}
	}
	return s
}

// countStrip returns the strip of several keys' alarm counts. Classes are relative to the row's average: a hundred
// keys have some alarm every day.
func countStrip(counts []int) Strip {
	total := 0
	for _, n := range counts {
		total += n
	}
	average := max(float64(total)/float64(len(counts)), 1)
	cells := make([]uint8, len(counts))
	for i, n := range counts {
		if n > 0 {
			cells[i] = classOf(float64(n), countClasses, average)
		}
	}
	return stripOf(cells)
}

// prefixes returns the index of each separator inside a key.
func prefixes(name string) (ends []int) {
	for i := range len(name) {
		if (name[i] == '/' || name[i] == ':') && i > 0 && i < len(name)-1 {
			ends = append(ends, i)
		}
	}
	return ends
}

// group sets the group of each key: its prefix, at the largest depth with at most shownGroups groups and at least
// twice as many keys as groups.
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

// addMap adds the map of alarms to the page.
func (c *Collector) addMap(p *Page, keys []*key) {
	if len(keys) == 0 || c.first.IsZero() {
		return
	}
	c.group()
	g := c.grid()
	m := &Map{Columns: g.columns, Step: stepName(g.step), Ticks: g.ticks(), Shown: min(len(keys), shownKeys)}
	m.Left = len(keys) - m.Shown
	rows := map[*key]*keyCells{}
	for _, k := range keys[:m.Shown] {
		rows[k] = &keyCells{make([]uint8, g.columns), math.NaN()}
	}
	groups := c.groupCounts(g.columns)
	fleet := make([]int, g.columns)
	for i := range c.alarms {
		a := &c.alarms[i]
		if a.unixTime == noTime {
			continue
		}
		column := g.column(c.wall(fromUnix(a.unixTime)).Unix())
		fleet[column]++
		groups[a.key.group].counts[column]++
		if row := rows[a.key]; row != nil {
			row.add(a, column)
		}
	}
	for i, k := range keys[:m.Shown] {
		group := groups[k.group]
		group.Left--
		group.Rows = append(group.Rows, rows[k].row(k, i))
	}
	m.addGroups(groups)
	m.Fleet = countStrip(fleet)
	for i := range p.Incidents {
		incident := &p.Incidents[i]
		end := incident.End
		if end.IsZero() {
			end = c.last
		}
		incident.Left = g.percent(c.wall(incident.Start))
		incident.Width = max(g.percent(c.wall(end))-incident.Left, 100/float64(g.columns))
		incident.Width = min(incident.Width, 100-incident.Left)
		m.Bars = append(m.Bars, *incident)
	}
	p.Map = m
}

// groupCounts is a group and its alarms by column.
type groupCounts struct {
	Group
	counts []int
	weight float64
}

// groupCounts returns the groups with alarms, by name. The counts of all columns are 0.
func (c *Collector) groupCounts(columns int) map[string]*groupCounts {
	groups := map[string]*groupCounts{}
	for _, k := range c.order {
		if k.alarms == 0 {
			continue
		}
		group := groups[k.group]
		if group == nil {
			group = &groupCounts{Group: Group{Name: k.group}, counts: make([]int, columns)}
			groups[k.group] = group
		}
		group.weight += k.weight
		group.Alarms += k.alarms
		group.Left++
	}
	for _, k := range c.order {
		if group := groups[k.group]; group != nil {
			group.Keys++
		}
	}
	return groups
}

// addGroups adds the groups to the map, by decreasing weight.
func (m *Map) addGroups(groups map[string]*groupCounts) {
	sorted := slices.SortedFunc(maps.Values(groups), func(a, b *groupCounts) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.Name, b.Name))
	})
	open := 0
	for i, group := range sorted {
		if i >= shownGroups && len(group.Rows) == 0 {
			m.GroupsLeft++
			m.AlarmsLeft += group.Alarms
			continue
		}
		group.Strip = countStrip(group.counts)
		names := make([]string, len(group.Rows))
		for k, row := range group.Rows {
			names[k] = row.Key
		}
		for k, name := range cutNames(names) {
			group.Rows[k].Short = name
		}
		open += len(group.Rows)
		group.Open = open <= openRows
		group.Name = shown(group.Name)
		if group.Name == `""` {
			group.Name = "no prefix"
		}
		m.Groups = append(m.Groups, group.Group)
	}
	m.Nested = len(sorted) > 1
}

// keyCells is the classes of a key's cells, and the largest score of its alarms; NaN without an alarm.
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

// row returns the key's row of the map.
func (r *keyCells) row(k *key, id int) KeyRow {
	label := message.Count(k.alarms, "alarm", "alarms")
	if !math.IsNaN(r.largest) {
		label += ", largest score " + number(r.largest)
	}
	if k.silences > 0 {
		label += ", " + message.Count(k.silences, "silence", "silences")
	}
	name := k.name
	if rest, ok := strings.CutPrefix(name, k.group); ok && k.group != "" {
		name = rest[1:]
	}
	return KeyRow{Key: shown(name), ID: id, Alarms: k.alarms, Label: label, Series: k.drawn(), Strip: stripOf(r.classes)}
}

func stepName(d time.Duration) string {
	if days := int(d / (24 * time.Hour)); days > 0 && d%(24*time.Hour) == 0 {
		return message.Count(days, "day", "days")
	}
	return message.Duration(d)
}
