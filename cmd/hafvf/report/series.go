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

// A point is an observation of a series. NaN stands for no number.
type point struct {
	at                 float64 // Unix seconds
	x                  float64
	predicted, usual   struct{ Mean, SD float64 }
	score, threshold   float32
	alarm, afterSilent bool // nothing came for long before it
}

// A series is a part of the observations of a key: the extremes and the alarms.
type series struct {
	points   []point
	unsorted bool
	step     float64 // about the median step, in seconds
	steps    int
	seen     int
	hours    usual.HoursOfWeek
}

const (
	maxKeyPoints = 4096 // of a key, while they are gathered
	minKeyPoints = 128
)

// add adds an observation, and thins the series when it has limit points.
func (s *series) add(e *Estimate, limit int) {
	p := point{at: float64(e.Time.UnixMilli()) / 1e3, x: e.X, predicted: e.Predicted, usual: e.Usual, alarm: e.Alarm}
	p.score, p.threshold = float32(e.Score), float32(e.Threshold)
	s.seen++
	if n := len(s.points); n > 0 {
		step := p.at - s.points[n-1].at
		switch {
		case step < 0:
			s.unsorted = true
		case step > 0:
			p.afterSilent = s.steps > 20 && step > 10*s.step
			s.steps++
			switch { // a median in the stream: it goes up as often as down
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

// thin leaves about n points: of equal stretches of time the least and the largest value, the
// largest score, and every alarm.
func (s *series) thin(n int) {
	if s.unsorted {
		slices.SortStableFunc(s.points, func(a, b point) int { return cmp.Compare(a.at, b.at) })
		s.unsorted = false
	}
	if len(s.points) <= n {
		return
	}
	first := s.points[0].at
	width := (s.points[len(s.points)-1].at - first) / float64(max(1, n/3))
	kept, at := s.points[:0], 0
	for at < len(s.points) {
		end := at + 1
		bucket := math.Floor((s.points[at].at - first) / width)
		for end < len(s.points) && math.Floor((s.points[end].at-first)/width) == bucket {
			end++
		}
		low, high, score := at, at, at
		for i := at; i < end; i++ {
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
		for i := at; i < end; i++ {
			p := s.points[i]
			if p.alarm && alarms < 8 {
				alarms++
			} else if i != low && i != high && i != score && !p.afterSilent {
				continue
			}
			kept = append(kept, p)
		}
		at = end
	}
	s.points = kept
}

// append appends the series as JSON: columns, without those that have no number.
func (s *series) append(b []byte, n int) []byte {
	s.thin(n)
	least, largest := math.Inf(1), math.Inf(-1)
	for _, p := range s.points {
		if !math.IsNaN(p.x) {
			least, largest = min(least, p.x), max(largest, p.x)
		}
	}
	// A value is written as finely as a picture of 4,000 pixels could show it.
	fine := 6
	if spread := largest - least; spread > 0 && !math.IsInf(spread, 0) {
		fine = min(max(int(math.Ceil(-math.Log10(spread/4000))), 0), 300)
	}
	value := func(b []byte, v float64) []byte {
		if (fine > 12 || math.Abs(v) >= 1e15) && isNumber(v) {
			return strconv.AppendFloat(b, v, 'g', 5, 64)
		}
		return appendNumber(b, v, fine)
	}
	b = append(b, `{"seen":`...)
	b = strconv.AppendInt(b, int64(s.seen), 10)
	last := 0.0
	b = records.AppendList(append(b, `,"t":`...), len(s.points), func(b []byte, i int) []byte {
		step := s.points[i].at - last
		last = s.points[i].at
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

// appendNumber appends a number as JSON, without the zeros behind its point.
func appendNumber(b []byte, v float64, digits int) []byte {
	if !isNumber(v) {
		return append(b, "null"...)
	}
	at := len(b)
	b = strconv.AppendFloat(b, v, 'f', digits, 64)
	if slices.Contains(b[at:], '.') {
		for b[len(b)-1] == '0' {
			b = b[:len(b)-1]
		}
		if b[len(b)-1] == '.' {
			b = b[:len(b)-1]
		}
	}
	if string(b[at:]) == "-0" {
		return append(b[:at], '0')
	}
	return b
}

func fromUnix(s int64) time.Time { return time.Unix(s, 0).UTC() }
