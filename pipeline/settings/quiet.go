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

// A quietTime is an entry of quiet as it is written.
type quietTime struct {
	match, from, to, weekly, zone, file string
}

// A quietLine is an entry in a file.
type quietLine struct {
	Match keyPattern `json:"match"`
	From  string     `json:"from"`
	To    string     `json:"to"`
}

// A keyPattern is a pattern of keys, in JSON also an object of labels.
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
			{Name: "from", Doc: "When they begin to be: this time belongs to it. A time without an offset is of the zone.", Read: keytable.Text(&q.from, keytable.NotEmpty)},
			{Name: "to", Doc: "When that ends: this time does not belong to it.", Read: keytable.Text(&q.to, keytable.NotEmpty)},
			{Name: "weekly", Doc: "Every week, in place of from and to: day and time of the clock, and how long it lasts. Of a time that the clock shows twice it is the first. One that the clock leaves out counts by the offset before.",
				Read: keytable.Checked(&q.weekly, "day, time and duration, such as Sun 02:00/2h", func(s string) error {
					_, err := weekly(s)
					return err
				})},
			{Name: "zone", Doc: "Zone of weekly, and of from and to.", Initial: "UTC", Read: keytable.Zone(&q.zone)},
			{Name: "file", Doc: "File with a line {\"match\": …, \"from\": …, \"to\": …} of JSON for each time; match may be labels. It has at most 64 MB, and is read at the start and again when it changes. A pipe is read once, within 10 s. A cluster reads it when a job is submitted.", Read: keytable.Text(&q.file, keytable.NotEmpty)},
		}
	})
}

var weeklyForm = regexp.MustCompile(`^(Sun|Mon|Tue|Wed|Thu|Fri|Sat) ([0-9]{2}:[0-9]{2})/(.+)$`)

// weekly reads a time that comes every week.
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
	lasts, err := time.ParseDuration(parts[3])
	if err != nil {
		return nil, form
	}
	if lasts <= 0 || lasts > 7*24*time.Hour {
		return nil, errors.New("lasts for more than nothing, and at most for 168h")
	}
	day := slices.Index(weekdays, parts[1])
	return &keyed.Weekly{Day: time.Weekday(day), Clock: time.Duration(clock.Hour())*time.Hour + time.Duration(clock.Minute())*time.Minute, Lasts: lasts}, nil
}

// once is an entry with from and to.
func (q *quietTime) once(zone string) (of keyed.QuietTime, where string, err error) {
	parser, err := times.NewParser(zone, "")
	if err != nil {
		return of, "zone", err
	}
	of.Match = q.match
	if err := domain.CheckPattern(q.match); err != nil {
		return of, "match", err
	}
	for _, end := range []struct {
		name, text string
		to         *time.Time
	}{{"from", q.from, &of.From}, {"to", q.to, &of.To}} {
		if end.text == "" {
			return of, end.name, errors.New("missing; it is required")
		}
		if *end.to, err = parser.Parse(end.text); err != nil {
			return of, end.name, fmt.Errorf("%s is not a time such as 2026-01-02T03:04:05Z", message.Quote(end.text))
		}
	}
	if !of.From.Before(of.To) {
		return of, "to", errors.New("is not after from")
	}
	return of, "", nil
}

// CheckQuiet settles the quiet times.
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
		q, at := &written[i], func(name string) string { return fmt.Sprintf("quiet.%d.%s", i, name) }
		has := func(names ...string) string {
			for _, name := range names {
				if d.Has(at(name)) {
					return name
				}
			}
			return ""
		}
		switch {
		case d.Has(at("file")):
			if name := has("match", "from", "to", "weekly", "zone"); name != "" {
				d.Fail(at(name), "is of an entry without file")
				continue
			}
			f := QuietFile{Path: q.file}
			bad, err := f.Read()
			if err == nil && bad != nil {
				err = fmt.Errorf("%s:%w", message.Printable(q.file), bad[0])
			}
			if err != nil {
				d.Fail(at("file"), "%v", err)
			}
			c.QuietFiles = append(c.QuietFiles, f)
		case !d.Has(at("match")):
			d.Fail(at("match"), "missing; it is required, but beside file")
		case d.Has(at("weekly")):
			if name := has("from", "to"); name != "" {
				d.Fail(at(name), "stands in place of weekly")
				continue
			}
			if w, err := weekly(q.weekly); err == nil {
				w.Zone = q.zone
				c.Quiet = append(c.Quiet, keyed.QuietTime{Match: q.match, Weekly: w})
			}
		default:
			of, name, err := q.once(q.zone)
			if err != nil {
				d.Fail(at(name), "%v", err)
				continue
			}
			c.Quiet = append(c.Quiet, of)
		}
	}
}

// A QuietFile is a file of quiet times.
type QuietFile struct {
	Path  string
	Times []keyed.QuietTime // that it had when it was read last
	Info  fs.FileInfo       // that describes it before that; nil if the last read has failed
}

const largestQuiet = 64 * inputfile.MB

// Read reads the file. bad are the errors of lines, as from ParseQuiet: the other lines count. After an error Times are as
// before.
func (f *QuietFile) Read() (bad []error, err error) {
	text, info, err := inputfile.ReadText(f.Path, largestQuiet)
	if f.Info = info; err == nil {
		f.Times, bad = ParseQuiet(text)
	}
	return bad, err
}

// ParseQuiet reads the lines of a file of quiet times. Of those that are none it says why, behind their number.
func ParseQuiet(b []byte) (all []keyed.QuietTime, bad []error) {
	n := 0
	for line := range bytes.Lines(b) {
		n++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		of, err := parseQuietLine(line)
		if err != nil {
			bad = append(bad, fmt.Errorf("%d: %w", n, err))
			continue
		}
		all = append(all, of)
	}
	return all, bad
}

func parseQuietLine(line []byte) (of keyed.QuietTime, err error) {
	q, err := jsontext.Strict[quietLine](line)
	if err != nil {
		return of, err
	}
	of, name, err := (&quietTime{match: string(q.Match), from: q.From, to: q.To}).once("")
	if err != nil {
		return of, fmt.Errorf("%s %w", name, err)
	}
	return of, nil
}

// AppendQuiet appends a line that ParseQuiet reads for each quiet time, which has from and to.
func AppendQuiet(b []byte, all []keyed.QuietTime) []byte {
	for _, q := range all {
		line := jsontext.Of(quietLine{Match: keyPattern(q.Match), From: q.From.UTC().Format(time.RFC3339Nano), To: q.To.UTC().Format(time.RFC3339Nano)})
		b = append(append(b, line...), '\n')
	}
	return b
}
