package pipeline

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"hafvf/connectors"
	"hafvf/hafvf"
	"hafvf/transforms"
)

// A layout is the form that the estimates of one model take as records.
type layout struct {
	Params []hafvf.Param
	Vector bool // means are lists, also of one entry
	Levels int  // of the filter that has most
	Bank   int  // filters of the largest bank, 0 where there is none
	Detect bool
	WarmUp bool
}

// newLayout is the layout of estimates by any of the filters, which have one
// family and dimension.
func newLayout(filters ...hafvf.Config) (l layout, err error) {
	for _, cfg := range filters {
		bank, err := cfg.NewBank()
		if err != nil {
			return layout{}, err
		}
		m := bank.Model()
		l.Params, l.Vector = m.Params(), cfg.Family == "mvnormal" || m.Outputs() > 1
		l.Detect, l.WarmUp = bank.Detects(), l.WarmUp || cfg.WarmUp > 0
		l.Bank = max(l.Bank, len(cfg.Bank))
		for i := range bank.Members() {
			l.Levels = max(l.Levels, bank.Filter(i).Levels())
		}
	}
	return l, nil
}

// appendEstimate appends the record of an estimate, a JSON object and a line end.
func (l layout) appendEstimate(b []byte, key string, e *transforms.Estimate) []byte {
	b = appendHead(b, key, e.ID, e.Time, e.N, e.X, e.Shape)
	b = append(b, `,"predicted":`...)
	b = l.appendMoments(b, e.Predicted)
	b = append(b, `,"estimate":`...)
	b = l.appendMoments(b, e.Estimate)
	if e.Detection != nil {
		b = append(b[:len(b)-1], `,"regime":`...)
		b = l.appendMoments(b, e.Regime)
		b = append(b, '}')
	}
	b = append(b, `,"log_predictive":`...)
	b = appendNumber(b, e.LogPredictive)
	b = append(b, `,"elbo":`...)
	b = appendNumber(b, e.ELBO)
	b = append(b, `,"weight":`...)
	b = appendNumber(b, e.Weight)
	b = append(b, `,"memory":`...)
	b = appendNumber(b, e.Memory)
	b = appendLevels(b, e.Levels)
	b = l.appendPosterior(b, e.Posterior)
	b = append(b, `,"iterations":`...)
	if e.Missing {
		b = append(b, "null"...)
	} else {
		b = strconv.AppendInt(b, int64(e.Iterations), 10)
	}
	b = append(b, `,"converged":`...)
	b = strconv.AppendBool(b, e.Converged)
	if e.WarmUp {
		b = append(b, `,"warm_up":true`...)
	}
	if e.Bank != nil {
		b = append(b, `,"bank":[`...)
		for i, m := range e.Bank {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, `{"weight_of_member":`...)
			b = appendNumber(b, m.Share)
			b = append(b, `,"weight":`...)
			b = appendNumber(b, m.Weight)
			b = append(b, `,"memory":`...)
			b = appendNumber(b, m.Memory)
			b = append(b, `,"log_predictive":`...)
			b = appendNumber(b, m.LogPredictive)
			b = append(b, '}')
		}
		b = append(b, ']')
	}
	if e.Detection != nil {
		b = append(b, `,"detect":`...)
		b = appendDetection(b, e.Detection)
	}
	return append(b, '}', '\n')
}

func appendDetection(b []byte, d *transforms.Detection) []byte {
	b = append(b, `{"kind":`...)
	b = appendText(b, string(d.Kind))
	b = append(b, `,"p_stay":`...)
	b = appendNumber(b, d.Stay)
	b = append(b, `,"p_outlier":`...)
	b = appendNumber(b, d.Outlier)
	b = append(b, `,"p_change":`...)
	b = appendNumber(b, d.Change)
	b = append(b, `,"start":`...)
	b = appendTime(b, d.Start)
	b = append(b, `,"start_n":`...)
	b = appendCount(b, d.StartN, d.StartN > 0)
	b = append(b, `,"delay":`...)
	b = appendCount(b, d.Delay, d.Kind == hafvf.Change || d.Kind == hafvf.Revision)
	b = append(b, `,"age":`...)
	b = strconv.AppendInt(b, d.Age, 10)
	return append(b, '}')
}

// appendAlert appends the record of an estimate's alert, a JSON object and a line
// end.
func (l layout) appendAlert(b []byte, key string, e *transforms.Estimate) []byte {
	a := e.Alert
	b = append(b, `{"key":`...)
	b = appendText(b, key)
	b = append(b, `,"time":`...)
	b = appendTime(b, e.Time)
	b = append(b, `,"kind":`...)
	b = appendText(b, string(a.Kind))
	b = append(b, `,"id":`...)
	b = appendText(b, e.ID)
	b = append(b, `,"corrects":`...)
	if a.Corrects == "" {
		b = append(b, "null"...)
	} else {
		b = appendText(b, a.Corrects)
	}
	b = append(b, `,"start":`...)
	b = appendTime(b, a.Start)
	b = append(b, `,"delay":`...)
	b = strconv.AppendInt(b, a.Delay, 10)
	b = append(b, `,"odds":`...)
	b = appendNumber(b, a.LogOdds)
	b = append(b, `,"before":`...)
	b = l.appendMoments(b, a.Before)
	b = append(b, `,"after":`...)
	b = l.appendMoments(b, a.After)
	return append(b, '}', '\n')
}

// appendCount appends n, or null where there is none.
func appendCount(b []byte, n int64, some bool) []byte {
	if !some {
		return append(b, "null"...)
	}
	return strconv.AppendInt(b, n, 10)
}

// appendSmoothed appends the record of a smoothed estimate, a JSON object and a
// line end.
func (l layout) appendSmoothed(b []byte, key string, s *transforms.Smoothed) []byte {
	b = appendHead(b, key, s.ID, s.Time, s.N, s.X, s.Shape)
	b = append(b, `,"estimate":`...)
	b = l.appendMoments(b, s.Estimate)
	b = append(b, `,"memory":`...)
	b = appendNumber(b, s.Memory)
	b = l.appendPosterior(b, s.Posterior)
	b = append(b, `,"forward":`...)
	b = appendPass(b, s.Forward)
	b = append(b, `,"backward":`...)
	b = appendPass(b, s.Backward)
	b = append(b, `,"session":{"start":`...)
	b = appendTime(b, s.Session.Start)
	b = append(b, `,"end":`...)
	b = appendTime(b, s.Session.End)
	b = append(b, `,"n":`...)
	b = strconv.AppendInt(b, s.Session.N, 10)
	b = append(b, `},"revision":`...)
	b = strconv.AppendInt(b, s.Revision, 10)
	if s.Split != "" {
		b = append(b, `,"split":`...)
		b = appendText(b, s.Split)
	}
	b = append(b, `,"change_evidence":`...)
	b = appendNumber(b, s.ChangeEvidence)
	b = append(b, `,"change":`...)
	b = strconv.AppendBool(b, s.Change)
	return append(b, '}', '\n')
}

// appendHead appends what every record begins with.
func appendHead(b []byte, key, id string, t time.Time, n int64, x [][]float64, shape transforms.Shape) []byte {
	b = append(b, `{"key":`...)
	b = appendText(b, key)
	b = append(b, `,"time":`...)
	b = appendTime(b, t)
	b = append(b, `,"id":`...)
	b = appendText(b, id)
	b = append(b, `,"n":`...)
	b = strconv.AppendInt(b, n, 10)
	b = append(b, `,"x":`...)
	return appendValue(b, x, shape)
}

func appendPass(b []byte, p transforms.Pass) []byte {
	b = append(b, `{"weight":`...)
	b = appendNumber(b, p.Weight)
	b = append(b, `,"memory":`...)
	b = appendNumber(b, p.Memory)
	b = appendLevels(b, p.Levels)
	return append(b, '}')
}

func appendLevels(b []byte, levels []float64) []byte {
	b = append(b, `,"levels":[`...)
	for i := 0; i+1 < len(levels); i += 2 {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"alpha":`...)
		b = appendNumber(b, levels[i])
		b = append(b, `,"beta":`...)
		b = appendNumber(b, levels[i+1])
		b = append(b, '}')
	}
	return append(b, ']')
}

func (l layout) appendPosterior(b []byte, v []float64) []byte {
	b = append(b, `,"posterior":{`...)
	at := 0
	for i, p := range l.Params {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendText(b, p.Name)
		b = append(b, ':')
		b = appendParam(b, p, v[at:at+p.Size()])
		at += p.Size()
	}
	return append(b, '}')
}

// estimateColumns are the record of an estimate as a table.
func (l layout) estimateColumns(x connectors.Kind) []connectors.Column {
	return slices.Concat(
		headColumns(x), l.momentColumns("predicted", "estimate"),
		columns(connectors.Number, "log_predictive", "elbo", "weight", "memory"),
		l.levelColumns("levels"), l.posteriorColumns(),
		columns(connectors.Number, "iterations"), columns(connectors.Bool, "converged"),
		l.warmUpColumns(), l.bankColumns(), l.detectionColumns(),
	)
}

func (l layout) warmUpColumns() []connectors.Column {
	if !l.WarmUp {
		return nil
	}
	return columns(connectors.Bool, "warm_up")
}

func (l layout) bankColumns() (cols []connectors.Column) {
	for i := range l.Bank {
		for _, name := range []string{"weight_of_member", "weight", "memory", "log_predictive"} {
			cols = append(cols, columns(connectors.Number, fmt.Sprintf("bank.%d.%s", i, name))...)
		}
	}
	return cols
}

func (l layout) detectionColumns() []connectors.Column {
	if !l.Detect {
		return nil
	}
	kind := connectors.Number
	if l.Vector {
		kind = connectors.String
	}
	return slices.Concat(
		columns(kind, "estimate.regime.mean", "estimate.regime.sd"), columns(connectors.String, "detect.kind"),
		columns(connectors.Number, "detect.p_stay", "detect.p_outlier", "detect.p_change"), columns(connectors.Time, "detect.start"),
		columns(connectors.Number, "detect.start_n", "detect.delay", "detect.age"),
	)
}

// alertColumns are the record of an alert as a table.
func (l layout) alertColumns() []connectors.Column {
	return slices.Concat(
		columns(connectors.String, "key"), columns(connectors.Time, "time"), columns(connectors.String, "kind", "id", "corrects"),
		columns(connectors.Time, "start"), columns(connectors.Number, "delay", "odds"), l.momentColumns("before", "after"),
	)
}

// smoothedColumns are the record of a smoothed estimate as a table.
func (l layout) smoothedColumns(x connectors.Kind) []connectors.Column {
	cols := slices.Concat(headColumns(x), l.momentColumns("estimate"), columns(connectors.Number, "memory"), l.posteriorColumns())
	for _, pass := range []string{"forward", "backward"} {
		cols = slices.Concat(cols, columns(connectors.Number, pass+".weight", pass+".memory"), l.levelColumns(pass+".levels"))
	}
	return slices.Concat(cols,
		columns(connectors.Time, "session.start", "session.end"), columns(connectors.Number, "session.n", "revision"),
		columns(connectors.String, "split"), columns(connectors.Number, "change_evidence"), columns(connectors.Bool, "change"),
	)
}

func columns(kind connectors.Kind, paths ...string) []connectors.Column {
	cols := make([]connectors.Column, len(paths))
	for i, p := range paths {
		cols[i] = connectors.Column{Path: p, Kind: kind}
	}
	return cols
}

func headColumns(x connectors.Kind) []connectors.Column {
	return slices.Concat(columns(connectors.String, "key"), columns(connectors.Time, "time"), columns(connectors.String, "id"),
		columns(connectors.Number, "n"), columns(x, "x"))
}

func (l layout) momentColumns(names ...string) (cols []connectors.Column) {
	kind := connectors.Number
	if l.Vector {
		kind = connectors.String
	}
	for _, name := range names {
		cols = append(cols, columns(kind, name+".mean", name+".sd")...)
	}
	return cols
}

func (l layout) levelColumns(path string) (cols []connectors.Column) {
	for i := range l.Levels {
		cols = append(cols, columns(connectors.Number, fmt.Sprintf("%s.%d.alpha", path, i), fmt.Sprintf("%s.%d.beta", path, i))...)
	}
	return cols
}

func (l layout) posteriorColumns() (cols []connectors.Column) {
	for _, p := range l.Params {
		kind := connectors.Number
		if p.Rows > 0 {
			kind = connectors.String
		}
		cols = append(cols, columns(kind, "posterior."+p.Name)...)
	}
	return cols
}

func (l layout) appendMoments(b []byte, m transforms.Moments) []byte {
	b = append(b, `{"mean":`...)
	b = l.appendOutputs(b, m.Mean)
	b = append(b, `,"sd":`...)
	b = l.appendOutputs(b, m.SD)
	return append(b, '}')
}

func (l layout) appendOutputs(b []byte, v []float64) []byte {
	if !l.Vector {
		return appendNumber(b, v[0])
	}
	return appendNumbers(b, v)
}

func appendParam(b []byte, p hafvf.Param, v []float64) []byte {
	switch {
	case p.Rows == 0:
		return appendNumber(b, v[0])
	case p.Cols == 0:
		return appendNumbers(b, v)
	}
	b = append(b, '[')
	for i := range p.Rows {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendNumbers(b, v[i*p.Cols:(i+1)*p.Cols])
	}
	return append(b, ']')
}

// appendValue appends x in the form in which it came in.
func appendValue(b []byte, x [][]float64, shape transforms.Shape) []byte {
	switch {
	case shape == transforms.Scalar && len(x) == 1 && len(x[0]) == 1:
		return appendNumber(b, x[0][0])
	case shape == transforms.Vector && len(x) == 1:
		return appendNumbers(b, x[0])
	case shape != transforms.List:
		return append(b, "null"...)
	}
	b = append(b, '[')
	for i, v := range x {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendNumbers(b, v)
	}
	return append(b, ']')
}

func appendNumbers(b []byte, v []float64) []byte {
	b = append(b, '[')
	for i, f := range v {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendNumber(b, f)
	}
	return append(b, ']')
}

// appendNumber appends the shortest text that reads back as f, or null where f
// is not finite.
func appendNumber(b []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(b, "null"...)
	}
	format := byte('f')
	if a := math.Abs(f); a != 0 && (a < 1e-6 || a >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(b, f, format, -1, 64)
}

func appendTime(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(b, "null"...)
	}
	b = append(b, '"')
	b = t.UTC().AppendFormat(b, time.RFC3339Nano)
	return append(b, '"')
}

// appendText appends s as a JSON string; bytes that are not UTF-8 become U+FFFD.
func appendText(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				b = append(b, s[start:i]...)
				b = append(b, "\ufffd"...)
				start = i + 1
			}
			i += size
			continue
		}
		if c >= 0x20 && c != '"' && c != '\\' {
			i++
			continue
		}
		b = append(b, s[start:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
		start = i
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}

// A place is where a record stands in its source.
type place struct {
	id  string // file:line or topic-partition-offset
	log string // topic-partition, of a topic
	seq int64  // offset
}

// appendReject appends the dead-letter record of what could not be used.
func appendReject(b []byte, p place, raw, reason string) []byte {
	b = append(b, `{"reason":`...)
	b = appendText(b, reason)
	b = append(b, `,"place":`...)
	b = appendText(b, p.id)
	if i := strings.LastIndexByte(p.log, '-'); i >= 0 {
		b = append(b, `,"id":`...)
		b = appendText(b, p.id)
		b = append(b, `,"topic":`...)
		b = appendText(b, p.log[:i])
		b = append(b, `,"partition":`...)
		b = append(b, p.log[i+1:]...)
		b = append(b, `,"offset":`...)
		b = strconv.AppendInt(b, p.seq, 10)
	}
	b = append(b, `,"raw":`...)
	b = appendText(b, raw)
	return append(b, '}', '\n')
}
