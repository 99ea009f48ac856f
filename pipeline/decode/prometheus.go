package decode

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/prometheus/common/model"

	"hafvf/connectors/promio"
	"hafvf/hafvf/keyed"
	"hafvf/internal/domain"
	"hafvf/internal/message"
)

// A point is one of a series.
type point struct {
	of *promio.Series
	model.SamplePair
	twice *promio.Series // has the key at this time too, and comes first
}

// Series decodes the series of a batch, and calls take with what their points become, several
// times. That is valid during the call. The id of a point is key/time: it does not depend on the
// batch.
func (d *Decoder) Series(all []promio.Series, take func([]Decoded)) {
	var points []point
	for rest := all; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].Key == rest[0].Key {
			n++
		}
		points = together(points[:0], rest[:n])
		rest = rest[n:]
		for some := range slices.Chunk(points, Together) {
			take(d.decode(len(some), func(i int, to *Decoded, text []byte) []byte { return decodePoint(&some[i], to, text) }))
		}
	}
}

// together appends the points of the series of one key, in the order of their times.
func together(points []point, all []promio.Series) []point {
	for i := range all {
		for _, p := range all[i].Points {
			points = append(points, point{of: &all[i], SamplePair: p})
		}
	}
	if len(all) == 1 {
		return points
	}
	slices.SortStableFunc(points, func(a, b point) int { return cmp.Compare(a.Timestamp, b.Timestamp) })
	var first *point
	for i := range points {
		p := &points[i]
		switch {
		case p.of.Reason != "":
		case first != nil && first.Timestamp == p.Timestamp:
			p.twice = first.of
		default:
			first = p
		}
	}
	return points
}

func decodePoint(p *point, to *Decoded, text []byte) []byte {
	to.Key, to.Time, to.Seq = p.of.Key, p.Timestamp.Time().UTC(), int64(p.Timestamp)
	v := float64(p.Value)
	switch {
	case p.of.Reason != "":
		to.Err = errors.New(p.of.Reason)
	case p.twice != nil:
		to.Err = fmt.Errorf("two series have this key at this time, the other one is %s: name more labels in source.prometheus.key", message.Shorten(p.twice.Metric.String()))
	case math.IsInf(v, 0):
		to.Err = errInfinite
	default:
		to.X = row(to.X, 1)
		to.X[0][0] = v
		to.Shape = keyed.Scalar
	}
	if to.Err != nil || math.IsNaN(v) {
		to.raw = fmt.Appendf(nil, "%s %s @%s", p.of.Metric, p.Value, p.Timestamp)
	} else {
		to.raw = strconv.AppendFloat(nil, v, 'g', -1, 64)
	}
	text = append(append(text, p.of.Key[:min(len(p.of.Key), domain.MaxKey)]...), '/')
	return to.Time.AppendFormat(text, "2006-01-02T15:04:05.999999999Z07:00")
}
