package settings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"time"

	"hafvf/hafvf/keyed"
	"hafvf/internal/domain"
	"hafvf/internal/inputfile"
	"hafvf/internal/jsontext"
	"hafvf/internal/message"
	"hafvf/internal/times"
	"hafvf/pipeline/settings/keytable"
)

// A quietTime is an entry of quiet as written in the config.
type quietTime struct {
	match, from, to, weekly, zone, file string
}

// A quietLine is a line of a file of quiet times.
type quietLine struct {
	Match keyPattern `json:"match"`
	From  string     `json:"from"`
	To    string     `json:"to"`
}

// A keyPattern is a pattern of keys. In JSON it may also be an object of labels.
type keyPattern string

func (p *keyPattern) UnmarshalJSON(b []byte) error {
	if bytes.HasPrefix(b, []byte("{")) {
		var labels map[string]string
		err := json.Unmarshal(b, &labels)
		*p = keyPattern(domain.LabelPattern(labels))
		return err
	}
	return json.Unmarshal(b, (*string)(p))
}

// quietTimes reads entries of quiet.
func quietTimes(dst *[]quietTime) keytable.ValueParser {
	return keytable.List("{match, from, to}, {match, weekly} or {file}", dst, func(q *quietTime) []keytable.Key {
		return []keytable.Key{
			{Name: "match", Doc: "Keys that are quiet.", Read: Pattern(&q.match)},
			{Name: "from", Doc: "Start of the quiet time, included. A time without an offset is in zone.", Read: keytable.Text(&q.from, keytable.NotEmpty)},
			{Name: "to", Doc: "End of the quiet time, excluded.", Read: keytable.Text(&q.to, keytable.NotEmpty)},
			{Name: "weekly", Doc: "Weekly quiet time, instead of from and to: day, local time and duration. A time that occurs twice means the first. A skipped time uses the offset before the clock change.",
				Read: keytable.Checked(&q.weekly, "day, time and duration, such as Sun 02:00/2h", func(s string) error {
					_, err := weekly(s)
					return err
				})},
			{Name: "zone", Doc: "Zone of weekly, and of from and to.", Initial: "UTC", Read: keytable.Zone(&q.zone)},
			{Name: "file", Doc: "File with one JSON object {\"match\": …, \"from\": …, \"to\": …} per line, at most 64 MB; match may be labels. It is read at the start, and again when it changes. A pipe is read once, within 10 s. A cluster reads the file when a job is submitted.", Read: keytable.Text(&q.file, keytable.NotEmpty)},
		}
	})
}

var weeklyForm = regexp.MustCompile(`^(Sun|Mon|Tue|Wed|Thu|Fri|Sat) ([0-9]{2}:[0-9]{2})/(.+)$`)

// weekly parses a time that recurs every week, such as Sun 02:00/2h.
func weekly(s string) (*keyed.Weekly, error) {
	form := errors.New("is not a day, a time and a duration, such as Sun 02:00/2h")
	parts := weeklyForm.FindStringSubmatch(s)
	if parts == nil {
		return nil, form
	}
	clock, err := time.Parse("15:04", parts[2])
	if err != nil {
		return nil, form
	}
	length, err := time.ParseDuration(parts[3])
	if err != nil {
		return nil, form
	}
	if length <= 0 || length > 7*24*time.Hour {
		return nil, errors.New("the duration must be above 0 and at most 168h")
	}
	day := slices.Index(weekdays, parts[1])
	return &keyed.Weekly{Day: time.Weekday(day), Clock: time.Duration(clock.Hour())*time.Hour + time.Duration(clock.Minute())*time.Minute, Lasts: length}, nil
}

// once parses an entry with from and to. If it returns an error, where names the field.
func (q *quietTime) once(zone string) (quiet keyed.QuietTime, where string, err error) {
	parser, err := times.NewParser(zone, "")
	if err != nil {
		return quiet, "zone", err
	}
	quiet.Match = q.match
	if err := domain.CheckPattern(q.match); err != nil {
		return quiet, "match", err
	}
	for _, end := range []struct {
		name, text string
		dst        *time.Time
	}{{"from", q.from, &quiet.From}, {"to", q.to, &quiet.To}} {
		if end.text == "" {
			return quiet, end.name, errors.New("missing; it is required")
		}
		if *end.dst, err = parser.Parse(end.text); err != nil {
			return quiet, end.name, fmt.Errorf("%s is not a time such as 2026-01-02T03:04:05Z", message.Quote(end.text))
		}
	}
	if !quiet.From.Before(quiet.To) {
		return quiet, "to", errors.New("is not after from")
	}
	return quiet, "", nil
}

// CheckQuiet checks the quiet times and adds them to the settings.
func (d *Reading) CheckQuiet() {
	c, written := d.c, d.quiet
	if len(written) == 0 {
		return
	}
	if c.Transform == Smooth {
		d.Fail("quiet", "belongs to transform: filter")
		return
	}
	d.NeedTime("an empty name means that there is no time, which quiet times need")
	for i := range written {
		q, sub := &written[i], func(name string) string { return fmt.Sprintf("quiet.%d.%s", i, name) }
		firstOf := func(names ...string) string {
			for _, name := range names {
				if d.Has(sub(name)) {
					return name
				}
			}
			return ""
		}
		switch {
		case d.Has(sub("file")):
			if name := firstOf("match", "from", "to", "weekly", "zone"); name != "" {
				d.Fail(sub(name), "is not allowed with file")
				continue
			}
			f := QuietFile{Path: q.file}
			bad, err := f.Read()
			if err == nil && bad != nil {
				err = fmt.Errorf("%s:%w", message.Printable(q.file), bad[0])
			}
			if err != nil {
				d.Fail(sub("file"), "%v", err)
			}
			c.QuietFiles = append(c.QuietFiles, f)
		case !d.Has(sub("match")):
			d.Fail(sub("match"), "missing; it is required without file")
		case d.Has(sub("weekly")):
			if name := firstOf("from", "to"); name != "" {
				d.Fail(sub(name), "is not allowed with weekly")
				continue
			}
			if w, err := weekly(q.weekly); err == nil {
				w.Zone = q.zone
				c.Quiet = append(c.Quiet, keyed.QuietTime{Match: q.match, Weekly: w})
			}
		default:
			parsed, name, err := q.once(q.zone)
			if err != nil {
				d.Fail(sub(name), "%v", err)
				continue
			}
			c.Quiet = append(c.Quiet, parsed)
		}
	}
}

// A QuietFile is a file of quiet times.
type QuietFile struct {
	Path  string
	Times []keyed.QuietTime // quiet times of the last successful read
	Info  fs.FileInfo       // description of the file before that read; nil if the last read failed
}

const maxQuietBytes = 64 * inputfile.MB

// Read reads the file. bad are the errors of invalid lines, as from ParseQuiet; the other lines are used. If err is
// not nil, Times is unchanged.
func (f *QuietFile) Read() (bad []error, err error) {
	text, info, err := inputfile.ReadText(f.Path, maxQuietBytes)
	if f.Info = info; err == nil {
		f.Times, bad = ParseQuiet(text)
	}
	return bad, err
}

// ParseQuiet parses the lines of a file of quiet times. bad has an error for each invalid line, with its line number.
func ParseQuiet(b []byte) (parsed []keyed.QuietTime, bad []error) {
	n := 0
	for line := range bytes.Lines(b) {
		n++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		entry, err := parseQuietLine(line)
		if err != nil {
			bad = append(bad, fmt.Errorf("%d: %w", n, err))
			continue
		}
		parsed = append(parsed, entry)
	}
	return parsed, bad
}

func parseQuietLine(line []byte) (quiet keyed.QuietTime, err error) {
	q, err := jsontext.Strict[quietLine](line)
	if err != nil {
		return quiet, err
	}
	quiet, name, err := (&quietTime{match: string(q.Match), from: q.From, to: q.To}).once("")
	if err != nil {
		return quiet, fmt.Errorf("%s %w", name, err)
	}
	return quiet, nil
}

// AppendQuiet appends a line for each quiet time in the format that ParseQuiet reads. Each must have From and To.
func AppendQuiet(b []byte, quiet []keyed.QuietTime) []byte {
	for _, q := range quiet {
		line := jsontext.Of(quietLine{Match: keyPattern(q.Match), From: q.From.UTC().Format(time.RFC3339Nano), To: q.To.UTC().Format(time.RFC3339Nano)})
		b = append(append(b, line...), '\n')
	}
	return b
}
