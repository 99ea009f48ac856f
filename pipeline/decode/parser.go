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
	"hafvf/internal/domain"
	"hafvf/internal/message"
	"hafvf/internal/times"
	"hafvf/pipeline/config"
)

var (
	errNoKey    = errors.New("no key")
	errEmptyKey = errors.New("the key is empty")
	errKeyUTF8  = errors.New("the key is not UTF-8")
	errKeyHalf  = errors.New("the key has half of a surrogate pair, which is not a character")
)

// A Parser reads observations from records of files and topics, as config.Fields describes them. Only Number may be
// called on the zero Parser.
type Parser struct {
	config.Fields
	// OnRounded, if not nil, is called with the text of each whole number beyond 2^53 that is not a float64, and with
	// the float64 that it is read as. It must be safe for concurrent use.
	OnRounded func(text string, read float64)

	times *times.Parser
	// names are the fields of a JSON object: the time except its last field, the session, the key, the last field of
	// the time, the values and the carried fields.
	names  []string
	path   []pathPart // parts of the key that are in the file's path; Key has the others
	dates  int        // number of fields of the time that come first
	nested bool       // some are paths into objects
	shared *Parser    // layout wide: fields that the observations of a record share
	// Layout wide: names and patterns of the fields of values.
	columns    map[string]bool
	patterns   []func(name string) bool
	width      int      // layout wide: number of observations of the previous record
	refuseDays bool     // see RefuseDays
	carry      [][]byte // quoted names of the carried fields
	comma      bool     // decimal comma
}

// NewParser returns a parser. It returns an error for an unknown zone or an invalid time format.
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
	f.Key, p.path = splitKey(f.Key)
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

// An origin supplies the key of a record that has none, or parts of it.
type origin struct {
	series string   // key of records without key columns: the parts of the path, or the name of the file or topic
	path   []string // texts of Parser.path
	err    error    // why the path has no such parts
	key    []byte   // key of a topic's record
	found  *kafkaio.DecodeInfo
}

// timeNames returns the names of the time: the ones that come first in a record, and the last one. The last one is
// empty if there is no time.
func timeNames(f config.Fields) (dates []string, last string) {
	if n := len(f.Time) - 1; n >= 0 {
		return f.Time[:n], f.Time[n]
	}
	return nil, ""
}

// keyIndex returns the index of the key's first field among the names.
func (p *Parser) keyIndex() int { return p.dates + len(p.By) }

// TimeAt returns the index of the time's last column in a row. It follows the columns of the key.
func (p *Parser) TimeAt() int { return p.keyIndex() + len(p.Key) }

// RowTime returns the text of the time in a row.
func (p *Parser) RowTime(fields []string) string {
	last := fields[p.TimeAt()]
	if p.dates == 0 {
		return last
	}
	return joined(append(slices.Clone(fields[:p.dates]), last))
}

// joined joins the texts of a time in several fields. It is empty if one of them is missing.
func joined(parts []string) string {
	for i, part := range parts {
		if parts[i] = strings.TrimSpace(part); domain.Missing(parts[i]) {
			return ""
		}
	}
	return strings.Join(parts, " ")
}

// row reads an observation from a table row, in the order of the parser's names. The time may be empty. Several
// values make one vector. The error is the reason for the rejection: a record that is rejected for its values has its key
// and time all the same. X is read into the memory of obs.X if possible.
func (p *Parser) row(fields []string, from origin, obs *keyed.Observation) (key string, err error) {
	values := p.TimeAt() + 1 // index of the first value
	if minFields := values + min(len(p.Values), 1); len(fields) < minFields {
		return "", fmt.Errorf("%d fields; at least %d are needed", len(fields), minFields)
	}
	if key, err = p.rowKey(fields[p.keyIndex():p.TimeAt()], from); err != nil {
		return "", err
	}
	var o keyed.Observation
	if len(p.By) > 0 {
		if o.Session, err = p.session(fields[p.dates:p.keyIndex()]); err != nil {
			return "", err
		}
	}
	switch timeText := p.RowTime(fields); {
	case p.Untimed:
	case p.TimeFormat == config.Trial:
		o.Trial, err = p.trial(timeText)
	default:
		o.Time, err = p.ParseTime(timeText)
	}
	if err != nil {
		return "", err
	}
	obs.Time = o.Time
	fields = fields[values:]
	if n := len(fields) - len(p.Carry); len(p.Carry) > 0 {
		o.ExtraFields = p.carriedCells(fields[n:])
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
			return key, err
		}
	}
	*obs = o
	return key, nil
}

func (p *Parser) rowKey(parts []string, from origin) (string, error) {
	if from.err != nil {
		return "", from.err
	}
	for i, part := range parts {
		switch {
		case part == "":
			return "", p.inPart(i, errEmptyKey)
		case !utf8.ValidString(part):
			return "", p.inPart(i, errKeyUTF8)
		}
	}
	if len(parts) == 0 {
		return from.series, nil
	}
	return p.joinKey(parts, from), nil
}

// session joins the values of the session fields.
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
	return domain.JoinKey(trimmed), nil
}

// trial reads a trial number.
func (p *Parser) trial(s string) (int64, error) {
	s = strings.TrimSpace(s)
	if p.missing(s) {
		return 0, fmt.Errorf("no trial number: %s is empty", message.Quote(p.Time[0]))
	}
	v, err := p.decimal(s)
	if err != nil || v != math.Trunc(v) || math.Abs(v) > maxTrial {
		return 0, fmt.Errorf("the trial %s is not a whole number", message.Quote(s))
	}
	return int64(v), nil
}

// maxTrial is the largest trial number. Up to it, a float64 represents every whole number.
const maxTrial = 1 << 53

// inPart adds the part of the key to an error, if the key has several.
func (p *Parser) inPart(i int, err error) error {
	if len(p.Key)+len(p.path) == 1 {
		return err
	}
	return fmt.Errorf("%w, in its part %s", err, message.Quote(p.Key[i]))
}

// row returns one vector of n numbers. It reuses the memory of x if that is large enough. Otherwise a scalar takes
// one allocation.
func row(x [][]float64, n int) [][]float64 {
	if len(x) == 1 && cap(x[0]) >= n {
		x[0] = x[0][:n]
		return x
	}
	if n > 1 {
		return [][]float64{make([]float64, n)}
	}
	scalar := new(struct {
		rows   [1][]float64
		values [1]float64
	})
	scalar.rows[0] = scalar.values[:]
	return scalar.rows[:]
}

// checkAhead returns an error if t is too far ahead of now, the time of the clock.
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

// IsSkippedTime reports whether a time does not exist in the zone, as times.Parser.IsSkippedTime does.
func (p *Parser) IsSkippedTime(s string) bool { return p.times.IsSkippedTime(strings.TrimSpace(s)) }

// ParseTime reads a time as times.Parser.ParseLocal does. An empty text or "NaN" returns the zero time.
func (p *Parser) ParseTime(s string) (time.Time, error) {
	if domain.Missing(strings.TrimSpace(s)) {
		return time.Time{}, nil
	}
	t, err := p.times.ParseLocal(s)
	if err == nil && t.IsZero() {
		err = fmt.Errorf("the time %s stands for none", message.Quote(s))
	}
	return p.checkDays(s, t, err)
}

// checkDays returns t and err, or an error if the text s of the time looks like spreadsheet days.
func (p *Parser) checkDays(s string, t time.Time, err error) (time.Time, error) {
	const day = 24 * 60 * 60
	if p.refuseDays && err == nil && t.Unix() >= 0 && t.Unix() < day && times.MaybeDays(s) {
		return time.Time{}, fmt.Errorf("the time %s seems to be days of a spreadsheet: set time_format: %s in the source if it is, or time_format: %s if it is seconds since 1970", strings.TrimSpace(s), times.Spreadsheet, times.Unix)
	}
	return t, err
}

// RefuseDays makes the parser reject times that look like spreadsheet days, if the config has no time_format. Use it
// for records that CheckFiles cannot read.
func (p *Parser) RefuseDays() { p.refuseDays = p.TimeFormat == "" }
