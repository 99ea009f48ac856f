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

// A point is a point of a series.
type point struct {
	series *promio.Series
	model.SamplePair
	earlier *promio.Series // earlier series with the same key and time; nil if there is none
}

// Series decodes the series of a batch. It calls take several times with the results, which are valid during the
// call. The id of a point is key/time, so it does not depend on the batch.
func (d *Decoder) Series(batch []promio.Series, take func([]Decoded)) {
	var points []point
	for rest := batch; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].Key == rest[0].Key {
			n++
		}
		points = together(points[:0], rest[:n])
		rest = rest[n:]
		for chunk := range slices.Chunk(points, MaxBatch) {
			take(d.decode(len(chunk), func(i int, dst *Decoded, text []byte) []byte { return decodePoint(&chunk[i], dst, text) }))
		}
	}
}

// together appends the points of the series of one key, in the order of their times.
func together(points []point, series []promio.Series) []point {
	for i := range series {
		for _, p := range series[i].Points {
			points = append(points, point{series: &series[i], SamplePair: p})
		}
	}
	if len(series) == 1 {
		return points
	}
	slices.SortStableFunc(points, func(a, b point) int { return cmp.Compare(a.Timestamp, b.Timestamp) })
	var first *point
	for i := range points {
		p := &points[i]
		switch {
		case p.series.Reason != "":
		case first != nil && first.Timestamp == p.Timestamp:
			p.earlier = first.series
		default:
			first = p
		}
	}
	return points
}

func decodePoint(p *point, dst *Decoded, text []byte) []byte {
	dst.Key, dst.Time, dst.Seq = p.series.Key, p.Timestamp.Time().UTC(), int64(p.Timestamp)
	v := float64(p.Value)
	switch {
	case p.series.Reason != "":
		dst.Err = errors.New(p.series.Reason)
	case p.earlier != nil:
		dst.Err = fmt.Errorf("two series have this key at this time; the other is %s: name more labels in source.prometheus.key", message.Shorten(p.earlier.Metric.String()))
	case math.IsInf(v, 0):
		dst.Err = errInfinite
	default:
		dst.X = row(dst.X, 1)
		dst.X[0][0] = v
		dst.Shape = keyed.Scalar
	}
	if dst.Err != nil || math.IsNaN(v) {
		dst.raw = fmt.Appendf(nil, "%s %s @%s", p.series.Metric, p.Value, p.Timestamp)
	} else {
		dst.raw = strconv.AppendFloat(nil, v, 'g', -1, 64)
	}
	text = append(append(text, p.series.Key[:min(len(p.series.Key), domain.MaxKey)]...), '/')
	return dst.Time.AppendFormat(text, "2006-01-02T15:04:05.999999999Z07:00")
}
