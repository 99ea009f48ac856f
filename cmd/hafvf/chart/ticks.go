package chart

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// numberTicks cuts the axis into at most as many parts as it says, at round
// numbers.
type numberTicks int

func (n numberTicks) Ticks(lo, hi float64) []plot.Tick {
	step := roundStep((hi - lo) / float64(n))
	var ticks []plot.Tick
	first := math.Ceil(lo / step)
	for i := range int(n) + 1 {
		v := (first+float64(i))*step + 0 // + 0 makes 0 of -0
		if v <= hi {
			ticks = append(ticks, plot.Tick{Value: v, Label: numberLabel(v, step)})
		}
	}
	return ticks
}

// roundStep is the least of 1, 2 and 5 times a power of ten that is not below v.
func roundStep(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= v {
			return m * power
		}
	}
	return 10 * power
}

// numberLabel writes a multiple of step with as many digits as it has.
func numberLabel(v, step float64) string {
	unit := ""
	for _, u := range []struct {
		size float64
		name string
	}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if math.Abs(v) >= u.size && math.Abs(v) >= 1e4 {
			v, step, unit = v/u.size, step/u.size, u.name
			break
		}
	}
	digits := -int(math.Floor(math.Log10(step) + 1e-9))
	switch {
	case v == 0 && digits > 4:
		return "0"
	case unit == "" && digits > 4:
		before := 1 + int(math.Floor(math.Log10(math.Abs(v))+1e-9))
		return strconv.FormatFloat(v, 'g', max(1, min(15, before+digits)), 64)
	}
	return strconv.FormatFloat(v, 'f', max(0, min(6, digits)), 64) + unit
}

// logTicks are the powers of ten, labelled so that about six labels remain; where
// there are fewer than three, with twice and five times the powers between them.
type logTicks struct{}

func (logTicks) Ticks(lo, hi float64) []plot.Tick {
	first, last := math.Ceil(math.Log10(lo)), math.Floor(math.Log10(hi))
	every := max(1, math.Ceil((last-first+1)/6))
	multiples := []float64{1}
	if last-first < 2 {
		first, multiples = first-1, []float64{1, 2, 5}
	}
	var ticks []plot.Tick
	for e := first; e <= last; e += every {
		for _, m := range multiples {
			if v := m * math.Pow(10, e); v >= lo && v <= hi {
				ticks = append(ticks, plot.Tick{Value: v, Label: numberLabel(v, math.Pow(10, e))})
			}
		}
	}
	return ticks
}

// ticks are the ticks of the axis from lo to hi, as many as a width has room
// for.
func (a Axis) ticks(lo, hi float64, width vg.Length) []plot.Tick {
	st := TextStyle(tickSize, Black, draw.YBottom)
	room := func(ticks []plot.Tick) bool {
		end := vg.Length(math.Inf(-1))
		for _, t := range ticks {
			x, half := width*vg.Length((t.Value-lo)/(hi-lo)), st.Width(strings.SplitN(t.Label, "\n", 2)[0])/2
			if x-half < end+8 {
				return false
			}
			end = x + half
		}
		return true
	}
	if a.Log {
		return logTicks{}.Ticks(lo, hi)
	}
	if !a.Time {
		for n := numberTicks(10); ; n-- {
			ticks := slices.DeleteFunc(n.Ticks(max(lo, a.Min), hi), func(t plot.Tick) bool { return t.Value != math.Round(t.Value) })
			if n == 1 || room(ticks) {
				return inside(ticks, lo, hi, width, st)
			}
		}
	}
	for _, step := range timeSteps {
		// Fewer than 20 ticks, and no label closer than the room it takes.
		if (hi-lo)/step.seconds() > 20 {
			continue
		}
		if ticks := step.ticks(lo, hi); room(ticks) {
			return inside(dates(ticks, step, lo, hi, width, st), lo, hi, width, st)
		}
	}
	return nil
}

// inside takes the labels off ticks that would stand out on the right, where
// the axis would make room for them.
func inside(ticks []plot.Tick, lo, hi float64, width vg.Length, st draw.TextStyle) []plot.Tick {
	for i, t := range ticks {
		if x := width * vg.Length((t.Value-lo)/(hi-lo)); x+st.Width(t.Label)/2 > width {
			ticks[i].Label = ""
		}
	}
	return ticks
}

// A timeStep is the distance of ticks in time.
type timeStep struct {
	every  time.Duration // or, where it is 0,
	months int
}

var timeSteps = func() (all []timeStep) {
	for _, unit := range []struct {
		size  time.Duration
		steps []int
	}{
		{time.Millisecond, []int{1, 2, 5, 10, 20, 50, 100, 200, 500}},
		{time.Second, []int{1, 2, 5, 10, 20, 30}},
		{time.Minute, []int{1, 2, 5, 10, 20, 30}},
		{time.Hour, []int{1, 2, 3, 6, 12}},
		{24 * time.Hour, []int{1, 2, 7, 14}},
	} {
		for _, n := range unit.steps {
			all = append(all, timeStep{every: time.Duration(n) * unit.size})
		}
	}
	for _, months := range []int{1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200, 6000, 12000} {
		all = append(all, timeStep{months: months})
	}
	return all
}()

func (s timeStep) seconds() float64 {
	const month = 365.2425 * 24 * 3600 / 12
	return s.every.Seconds() + month*float64(s.months)
}

// ticks are the multiples of the step from lo to hi, in UTC: weeks begin on
// Monday, months and years on their first day.
func (s timeStep) ticks(lo, hi float64) []plot.Tick {
	layout := "15:04:05.000"
	switch {
	case s.months >= 12:
		layout = "2006"
	case s.months > 0:
		layout = "Jan"
	case s.every >= 24*time.Hour:
		layout = "2 Jan"
	case s.every >= time.Minute:
		layout = "15:04"
	case s.every >= time.Second:
		layout = "15:04:05"
	}
	// Truncate counts from the year 1, which began on a Monday.
	first := time.UnixMicro(int64(lo * 1e6)).UTC().Truncate(s.every)
	at := func(i int) time.Time { return first.Add(time.Duration(i) * s.every) }
	if s.months > 0 {
		month := (first.Year()*12 + int(first.Month()) - 1) / s.months * s.months
		at = func(i int) time.Time {
			m := month + i*s.months
			return time.Date(m/12, time.Month(m%12+1), 1, 0, 0, 0, 0, time.UTC)
		}
	}
	var ticks []plot.Tick
	for i := 0; ; i++ {
		t := at(i)
		v := float64(t.UnixMicro()) / 1e6
		if v > hi {
			return ticks
		}
		if v >= lo {
			ticks = append(ticks, plot.Tick{Value: v, Label: t.Format(layout)})
		}
	}
}

// dates adds a second line to the ticks at which the date, or beside dates and
// months the year, is another one than before, as far as there is room.
func dates(ticks []plot.Tick, step timeStep, lo, hi float64, width vg.Length, st draw.TextStyle) []plot.Tick {
	layout := "2 Jan 2006"
	switch {
	case step.months >= 12:
		return ticks
	case step.months > 0 || step.every >= 24*time.Hour:
		layout = "2006"
	}
	shown, end := "", vg.Length(math.Inf(-1))
	for i, t := range ticks {
		date := time.UnixMicro(int64(t.Value * 1e6)).UTC().Format(layout)
		x, half := width*vg.Length((t.Value-lo)/(hi-lo)), st.Width(date)/2
		if date != shown && x-half > end+8 && x+half <= width {
			ticks[i].Label += "\n" + date
			shown, end = date, x+half
		} else {
			ticks[i].Label += "\n " // the first line of all at one height
		}
	}
	return ticks
}
