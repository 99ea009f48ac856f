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

// numberTicks splits an axis into at most n parts, at round numbers.
type numberTicks int

func (n numberTicks) Ticks(lo, hi float64) []plot.Tick {
	step := roundStep((hi - lo) / float64(n))
	var ticks []plot.Tick
	first := math.Ceil(lo / step)
	for i := range int(n) + 1 {
		v := (first+float64(i))*step + 0 // + 0 turns -0 into 0
		if v <= hi {
			ticks = append(ticks, plot.Tick{Value: v, Label: numberLabel(v, step)})
		}
	}
	return ticks
}

// roundStep returns the smallest of 1, 2 and 5 times a power of ten that is not below v.
func roundStep(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= v {
			return m * power
		}
	}
	return 10 * power
}

// numberLabel formats v, a multiple of step, with the digits of step.
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
		digitsBefore := 1 + int(math.Floor(math.Log10(math.Abs(v))+1e-9))
		return strconv.FormatFloat(v, 'g', max(1, min(15, digitsBefore+digits)), 64)
	}
	return strconv.FormatFloat(v, 'f', max(0, min(6, digits)), 64) + unit
}

// logTicks are the powers of ten, thinned to about six ticks. With fewer than three powers they also include 2 and 5
// times the powers.
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

// ticks returns the ticks of the axis from lo to hi, as many as fit in width.
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
		// At most about 20 ticks, and no overlapping labels.
		if (hi-lo)/step.seconds() > 20 {
			continue
		}
		if ticks := step.ticks(lo, hi); room(ticks) {
			return inside(dates(ticks, step, lo, hi, width, st), lo, hi, width, st)
		}
	}
	return nil
}

// inside removes labels that would extend beyond the right end. The plot would shrink the axis to make room for them.
func inside(ticks []plot.Tick, lo, hi float64, width vg.Length, st draw.TextStyle) []plot.Tick {
	for i, t := range ticks {
		if x := width * vg.Length((t.Value-lo)/(hi-lo)); x+st.Width(t.Label)/2 > width {
			ticks[i].Label = ""
		}
	}
	return ticks
}

// A timeStep is the distance between ticks in time.
type timeStep struct {
	every  time.Duration // 0 if months is set
	months int
}

var timeSteps = func() (steps []timeStep) {
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
			steps = append(steps, timeStep{every: time.Duration(n) * unit.size})
		}
	}
	for _, months := range []int{1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200, 6000, 12000} {
		steps = append(steps, timeStep{months: months})
	}
	return steps
}()

func (s timeStep) seconds() float64 {
	const month = 365.2425 * 24 * 3600 / 12
	return s.every.Seconds() + month*float64(s.months)
}

// ticks returns the multiples of the step from lo to hi, in UTC. Weeks begin on Monday, months and years on their
// first day.
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
	timeOf := func(i int) time.Time { return first.Add(time.Duration(i) * s.every) }
	if s.months > 0 {
		month := (first.Year()*12 + int(first.Month()) - 1) / s.months * s.months
		timeOf = func(i int) time.Time {
			m := month + i*s.months
			return time.Date(m/12, time.Month(m%12+1), 1, 0, 0, 0, 0, time.UTC)
		}
	}
	var ticks []plot.Tick
	for i := 0; ; i++ {
		t := timeOf(i)
		v := float64(t.UnixMicro()) / 1e6
		if v > hi {
			return ticks
		}
		if v >= lo {
			ticks = append(ticks, plot.Tick{Value: v, Label: t.Format(layout)})
		}
	}
}

// dates adds a second line to ticks at which the date changes, if there is room. For steps of a day or more the
// second line is the year.
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
			ticks[i].Label += "\n " // aligns the first lines of all labels
		}
	}
	return ticks
}
