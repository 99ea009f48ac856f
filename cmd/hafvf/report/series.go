package report

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	"hafvf/hafvf/usual"
	"hafvf/pipeline/records"
)

// A point is an observation of a series. NaN means no number.
type point struct {
	time               float64 // Unix seconds
	x                  float64
	predicted, usual   struct{ Mean, SD float64 }
	score, threshold   float32
	alarm, afterSilent bool // afterSilent: a long gap precedes the observation
}

// A series is a thinned list of a key's observations. It keeps extremes and alarms.
type series struct {
	points   []point
	unsorted bool
	step     float64 // estimate of the median step, in seconds
	steps    int
	seen     int
	hours    usual.HoursOfWeek
}

const (
	maxKeyPoints = 4096 // maximum number of points of a key during collection
	minKeyPoints = 128
)

// add adds an observation. It thins the series at limit points.
func (s *series) add(e *Estimate, limit int) {
	p := point{time: float64(e.Time.UnixMilli()) / 1e3, x: e.X, predicted: e.Predicted, usual: e.Usual, alarm: e.Alarm}
	p.score, p.threshold = float32(e.Score), float32(e.Threshold)
	s.seen++
	if n := len(s.points); n > 0 {
		step := p.time - s.points[n-1].time
		switch {
		case step < 0:
			s.unsorted = true
		case step > 0:
			p.afterSilent = s.steps > 20 && step > 10*s.step
			s.steps++
			switch { // running median: equally many steps raise and lower it
			case s.steps == 1:
				s.step = step
			case step > s.step:
				s.step *= 1.05
			case step < s.step:
				s.step /= 1.05
			}
		}
	}
	s.points = append(s.points, p)
	if len(s.points) >= limit {
		s.thin(limit / 2)
	}
}

// thin reduces the series to about n points: from each time bucket the minimum, the maximum, the largest score, up to
// 8 alarms, and observations after a gap.
func (s *series) thin(n int) {
	if s.unsorted {
		slices.SortStableFunc(s.points, func(a, b point) int { return cmp.Compare(a.time, b.time) })
		s.unsorted = false
	}
	if len(s.points) <= n {
		return
	}
	first := s.points[0].time
	width := (s.points[len(s.points)-1].time - first) / float64(max(1, n/3))
	thinned, start := s.points[:0], 0
	for start < len(s.points) {
		end := start + 1
		bucket := math.Floor((s.points[start].time - first) / width)
		for end < len(s.points) && math.Floor((s.points[end].time-first)/width) == bucket {
			end++
		}
		low, high, score := start, start, start
		for i := start; i < end; i++ {
			p := &s.points[i]
			if !(s.points[low].x <= p.x) {
				low = i
			}
			if !(s.points[high].x >= p.x) {
				high = i
			}
			if !(s.points[score].score >= p.score) {
				score = i
			}
		}
		alarms := 0
		for i := start; i < end; i++ {
			p := s.points[i]
			if p.alarm && alarms < 8 {
				alarms++
			} else if i != low && i != high && i != score && !p.afterSilent {
				continue
			}
			thinned = append(thinned, p)
		}
		start = end
	}
	s.points = thinned
}

// append thins the series to about n points, and appends it as JSON columns. It omits columns without a number.
func (s *series) append(b []byte, n int) []byte {
	s.thin(n)
	minimum, maximum := math.Inf(1), math.Inf(-1)
	for _, p := range s.points {
		if !math.IsNaN(p.x) {
			minimum, maximum = min(minimum, p.x), max(maximum, p.x)
		}
	}
	// Values have the precision of a picture that is 4,000 pixels high.
	decimals := 6
	if spread := maximum - minimum; spread > 0 && !math.IsInf(spread, 0) {
		decimals = min(max(int(math.Ceil(-math.Log10(spread/4000))), 0), 300)
	}
	value := func(b []byte, v float64) []byte {
		if (decimals > 12 || math.Abs(v) >= 1e15) && isNumber(v) {
			return strconv.AppendFloat(b, v, 'g', 5, 64)
		}
		return appendNumber(b, v, decimals)
	}
	b = append(b, `{"seen":`...)
	b = strconv.AppendInt(b, int64(s.seen), 10)
	last := 0.0
	b = records.AppendList(append(b, `,"t":`...), len(s.points), func(b []byte, i int) []byte {
		step := s.points[i].time - last
		last = s.points[i].time
		return appendNumber(b, step, 3)
	})
	column := func(name string, get func(*point) float64, write func([]byte, float64) []byte) {
		if slices.ContainsFunc(s.points, func(p point) bool { return isNumber(get(&p)) }) {
			b = append(append(append(b, `,"`...), name...), `":`...)
			b = records.AppendList(b, len(s.points), func(b []byte, i int) []byte { return write(b, get(&s.points[i])) })
		}
	}
	short := func(b []byte, v float64) []byte { return appendNumber(b, v, 1) }
	column("x", func(p *point) float64 { return p.x }, value)
	column("um", func(p *point) float64 { return p.usual.Mean }, value)
	column("us", func(p *point) float64 { return p.usual.SD }, value)
	column("pm", func(p *point) float64 { return p.predicted.Mean }, value)
	column("ps", func(p *point) float64 { return p.predicted.SD }, value)
	column("score", func(p *point) float64 { return float64(p.score) }, short)
	column("from", func(p *point) float64 { return float64(p.threshold) }, short)
	var gaps []int
	for i, p := range s.points {
		if p.afterSilent {
			gaps = append(gaps, i)
		}
	}
	b = records.AppendList(append(b, `,"gaps":`...), len(gaps), func(b []byte, i int) []byte { return strconv.AppendInt(b, int64(gaps[i]), 10) })
	return append(b, '}')
}

func isNumber(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// appendNumber appends v as JSON with at most the given number of decimals, without trailing zeros. It appends null
// if v is not finite.
func appendNumber(b []byte, v float64, digits int) []byte {
	if !isNumber(v) {
		return append(b, "null"...)
	}
	start := len(b)
	b = strconv.AppendFloat(b, v, 'f', digits, 64)
	if slices.Contains(b[start:], '.') {
		for b[len(b)-1] == '0' {
			b = b[:len(b)-1]
		}
		if b[len(b)-1] == '.' {
			b = b[:len(b)-1]
		}
	}
	if string(b[start:]) == "-0" {
		return append(b[:start], '0')
	}
	return b
}

func fromUnix(s int64) time.Time { return time.Unix(s, 0).UTC() }
