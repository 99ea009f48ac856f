package decode

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"hafvf/connectors"
	"hafvf/connectors/kafkaio"
	"hafvf/hafvf/keyed"
	"hafvf/internal/message"
	"hafvf/internal/series"
	"hafvf/internal/times"
	"hafvf/pipeline/config"
)

var (
	errNoKey    = errors.New("no key")
	errEmptyKey = errors.New("the key is empty")
	errKeyUTF8  = errors.New("the key is not UTF-8")
	errKeyHalf  = errors.New("the key has half of a surrogate pair, which is no character")
)

// A Parser reads observations of records as config.Fields describes them, of files and
// topics alike. Of the zero Parser, Number alone is of use.
type Parser struct {
	config.Fields
	// OnRounded, if set, is called with the text of each whole number beyond 2^53 that no float64 has, and with the float64
	// that it is read as. It is safe for concurrent use.
	OnRounded func(text string, read float64)

	times *times.Parser
	// names are those of the fields of a JSON object: of the time but for its last field, the session, the key,
	// the time, the values and what is carried.
	names  []string
	dates  int     // how many fields of the time come first
	nested bool    // some are paths into objects
	shared *Parser // of the layout wide: of what the observations of a record have in common
	// Of the layout wide: the names and the patterns of the fields of values.
	columns  map[string]bool
	patterns []func(name string) bool
	width    int      // observations of the record before, of the layout wide
	unseen   bool     // see RefuseDays
	carry    [][]byte // the quoted names of what is carried
	comma    bool     // decimal
}

// NewParser makes a parser. The error names a zone or a format of times that is none.
func NewParser(f config.Fields) (*Parser, error) {
	format := f.TimeFormat
	if format == config.Trial {
		format = ""
	}
	t, err := times.NewParser(f.Zone, format)
	if err != nil {
		return nil, err
	}
	dates, last := timeNames(f)
	p := &Parser{times: t, dates: len(dates), comma: f.Decimal == ','}
	if f.Layout == config.Wide {
		p.shared = &Parser{names: slices.Concat(dates, f.By, f.Key, []string{last})}
		p.shared.nested = slices.ContainsFunc(p.shared.names, isPath)
		f.Key = append(slices.Clone(f.Key), "column")
		p.columns = map[string]bool{}
		for _, want := range f.Columns {
			if p.columns[want] = true; connectors.IsPattern(want) {
				p.patterns = append(p.patterns, connectors.Matcher(want))
			}
		}
	}
	p.Fields, p.names = f, slices.Concat(dates, f.By, f.Key, []string{last}, f.Values, f.Carry)
	p.nested = slices.ContainsFunc(p.names, isPath)
	for _, name := range f.Carry {
		p.carry = append(p.carry, quotedText(name))
	}
	return p, nil
}

// isPath reports whether a name is a path into an object.
func isPath(name string) bool { return strings.Contains(name, ".") }

// An origin stands in for a key that a record does not have.
type origin struct {
	series string // where records have no keys: the name of the file or topic
	key    []byte // of a topic's record
	found  *kafkaio.DecodeInfo
}

// timeNames are the names of the time: those that come first in a record, and the last, which is empty if
// there is no time.
func timeNames(f config.Fields) (dates []string, last string) {
	if n := len(f.Time) - 1; n >= 0 {
		return f.Time[:n], f.Time[n]
	}
	return nil, ""
}

// keyAt is the place of the key among the names, and TimeAt that of the last field of the time.
func (p *Parser) keyAt() int { return p.dates + len(p.By) }

// TimeAt is the place of the time among the columns of a record, behind those of the key.
func (p *Parser) TimeAt() int { return p.keyAt() + len(p.Key) }

// RowTime is the text of the time in a row.
func (p *Parser) RowTime(fields []string) string {
	last := fields[p.TimeAt()]
	if p.dates == 0 {
		return last
	}
	return joined(append(slices.Clone(fields[:p.dates]), last))
}

// joined is the text of a time in several fields; empty if one of them is.
func joined(parts []string) string {
	for i, part := range parts {
		if parts[i] = strings.TrimSpace(part); Missing(parts[i]) {
			return ""
		}
	}
	return strings.Join(parts, " ")
}

// row reads an observation from the columns of a table, in the order of the parser's names; the time's may be
// empty. Several values make one vector. The error is the reason for the
// rejection. X is read into the memory that obs has for it.
func (p *Parser) row(fields []string, from origin, obs *keyed.Observation) (key string, err error) {
	values := p.TimeAt() + 1 // where they begin
	if least := values + min(len(p.Values), 1); len(fields) < least {
		return "", fmt.Errorf("%d fields; at least %d are needed", len(fields), least)
	}
	if key, err = p.rowKey(fields[p.keyAt():p.TimeAt()], from); err != nil {
		return "", err
	}
	var o keyed.Observation
	if len(p.By) > 0 {
		if o.Session, err = p.session(fields[p.dates:p.keyAt()]); err != nil {
			return "", err
		}
	}
	switch at := p.RowTime(fields); {
	case p.Untimed:
	case p.TimeFormat == config.Trial:
		o.Trial, err = p.trial(at)
	default:
		o.Time, err = p.ParseTime(at)
	}
	if err != nil {
		return "", err
	}
	fields = fields[values:]
	if n := len(fields) - len(p.Carry); len(p.Carry) > 0 {
		o.Carried = p.carriedCells(fields[n:])
		fields = fields[:n]
	}
	switch len(fields) {
	case 0:
	case 1:
		o.X = row(obs.X, 1)
	default:
		o.X, o.Shape = row(obs.X, len(fields)), keyed.Vector
	}
	for i, f := range fields {
		if o.X[0][i], err = p.Number(f); err != nil {
			if len(fields) > 1 {
				err = fmt.Errorf("value %d: %w", i+1, err)
			}
			return "", err
		}
	}
	*obs = o
	return key, nil
}

func (p *Parser) rowKey(parts []string, from origin) (string, error) {
	for i, part := range parts {
		switch {
		case part == "":
			return "", p.ofPart(i, errEmptyKey)
		case !utf8.ValidString(part):
			return "", p.ofPart(i, errKeyUTF8)
		}
	}
	switch len(parts) {
	case 0:
		return from.series, nil
	case 1:
		return parts[0], nil
	}
	return series.Join(parts), nil
}

// session joins the values that tell the session.
func (p *Parser) session(values []string) (string, error) {
	trimmed := make([]string, len(values))
	for i, v := range values {
		switch trimmed[i] = strings.TrimSpace(v); {
		case trimmed[i] == "":
			return "", fmt.Errorf("%s is empty, which session.by names", message.Quote(p.By[i]))
		case !utf8.ValidString(v):
			return "", fmt.Errorf("%s, which session.by names, is not UTF-8", message.Quote(p.By[i]))
		}
	}
	return series.Join(trimmed), nil
}

// trial reads the number of a trial.
func (p *Parser) trial(s string) (int64, error) {
	s = strings.TrimSpace(s)
	if p.missing(s) {
		return 0, fmt.Errorf("no number of a trial: %s is empty", message.Quote(p.Time[0]))
	}
	v, err := p.decimal(s)
	if err != nil || v != math.Trunc(v) || math.Abs(v) > maxTrial {
		return 0, fmt.Errorf("the trial %s is no whole number", message.Quote(s))
	}
	return int64(v), nil
}

// maxTrial is the largest whole number that is exact in a double.
const maxTrial = 1 << 53

// ofPart says to which of several parts of the key a reason belongs.
func (p *Parser) ofPart(i int, err error) error {
	if len(p.Key) == 1 {
		return err
	}
	return fmt.Errorf("%w, in its part %s", err, message.Quote(p.Key[i]))
}

// row returns one vector of n numbers, in the memory of x where that has room, and else in
// one allocation for a scalar.
func row(x [][]float64, n int) [][]float64 {
	if len(x) == 1 && cap(x[0]) >= n {
		x[0] = x[0][:n]
		return x
	}
	if n > 1 {
		return [][]float64{make([]float64, n)}
	}
	one := new(struct {
		rows   [1][]float64
		values [1]float64
	})
	one.rows[0] = one.values[:]
	return one.rows[:]
}

// checkAhead returns why a time is too far ahead of the clock, which shows now; nil if it is
// not.
func (p *Parser) checkAhead(t, now time.Time) error {
	if p.MaxAhead <= 0 || !t.After(now.Add(p.MaxAhead)) {
		return nil
	}
	ahead := fmt.Sprintf("%.1f h", t.Sub(now).Hours())
	if t.After(now.AddDate(1, 0, 0)) {
		ahead = message.Span(t.Sub(now))
	}
	return fmt.Errorf("the time %s is %s ahead of the clock: max_ahead of the source allows %s", t.UTC().Format(time.RFC3339), ahead, message.Duration(p.MaxAhead))
}

// LeavesOut is times.Parser.LeavesOut.
func (p *Parser) LeavesOut(s string) bool { return p.times.LeavesOut(strings.TrimSpace(s)) }

// ParseTime reads a time as times.Parser.ParseLocal does. Empty text and "NaN" mean no time.
func (p *Parser) ParseTime(s string) (time.Time, error) {
	if Missing(strings.TrimSpace(s)) {
		return time.Time{}, nil
	}
	t, err := p.times.ParseLocal(s)
	if err == nil && t.IsZero() {
		err = fmt.Errorf("the time %s stands for none", message.Quote(s))
	}
	return p.checkDays(s, t, err)
}

// checkDays is the time t that the text s has been read as, unless it seems to be days.
func (p *Parser) checkDays(s string, t time.Time, err error) (time.Time, error) {
	const day = 24 * 60 * 60
	if p.unseen && err == nil && t.Unix() >= 0 && t.Unix() < day && times.MaybeDays(s) {
		return time.Time{}, fmt.Errorf("the time %s seems to be days of a spreadsheet: say time_format: %s in the source if it is, and time_format: %s if it is seconds since 1970", strings.TrimSpace(s), times.Spreadsheet, times.Unix)
	}
	return t, err
}

// RefuseDays makes the parser refuse each time that seems to be days of a spreadsheet, if the
// config does not say what it is. It is for records that CheckTimes cannot look at.
func (p *Parser) RefuseDays() { p.unseen = p.TimeFormat == "" }
