package sniff

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"hafvf/connectors"
	"hafvf/connectors/promio"
	"hafvf/hafvf"
	"hafvf/hafvf/keyed"
	"hafvf/internal/clock"
	"hafvf/internal/domain"
	"hafvf/internal/message"
	"hafvf/internal/series"
	"hafvf/internal/times"
	"hafvf/pipeline/config"
	"hafvf/pipeline/decode"
	"hafvf/pipeline/records"
	"hafvf/pipeline/seasontrial"
	"hafvf/pipeline/settings"
)

// ErrNoData says that a source cannot be looked at without using it up or connecting
// to it.
var ErrNoData = errors.New("topics and standard input are not looked at")

// A Result is what the first records of files show, read as a config says.
type Result struct {
	Path    string // or the query
	Queried bool   // the records are the last points of a query
	Places  int    // in the file, that the records are of
	Whole   bool   // there are no other records
	Records int
	Columns []string // of a table, or the fields of JSON objects

	Parsed     int // records that are observations
	Rejections []records.Rejection
	Keys       []string // in the order of their first records

	Timed       int // observations with a time
	First, Last time.Time
	Far         int           // observations with a time far beyond the others
	FirstFar    string        // the place of the first of these
	Step        time.Duration // median, between observations of a key
	Early       int           // observations before an earlier record's time of their key
	Behind      time.Duration // the farthest of these
	Late        int           // of these, those that a run would reject
	Back        int           // steps of a key to an earlier time
	LeftOut     int           // times that the clock of the zone leaves out
	FirstLeft   string        // the place of the first of these
	Tied        int           // observations with a time that their key has had
	TiedKey     string        // the key of most of these, if it has more such times than others
	Single      int           // keys with one record, of those that must have more
	Components  int           // numbers of the observations, missing ones too
	Missing     int
	Zero        int
	Negative    int
	Fractions   int // not whole
	Min, Max    float64
	Counters    []string // keys whose numbers rise and hardly ever fall
	Restarts    int      // of counters whose increase is taken
	Rules       []Rule   // of keys, in their order
	Suggestions []Suggestion
	Remarks     Remarks
	Sessions    Sessions // of transform: smooth by times
}

// A Suggestion is a key of a config that the records call for.
type Suggestion struct {
	Key, Value string // as YAML
	Why        string
}

// Inspect reads the first records of the config's source, or the last points of its query. It
// returns ErrNoData for topics and standard input. Other errors are those of a run.
func Inspect(c *config.Config) (*Result, error) {
	s, err := sniffRecords(c)
	if err != nil {
		return nil, err
	}
	if season, why := s.season(c); season != "" {
		s.result.Suggestions = append(s.result.Suggestions, Suggestion{"model.season", season, why})
	}
	return s.result, nil
}

// sniffRecords is Inspect without the season, which takes its time.
func sniffRecords(c *config.Config) (*sample, error) {
	switch {
	case c.Source.Prometheus() != nil:
		return sniffQuery(c)
	case c.Source.Files() == nil:
		return nil, ErrNoData
	}
	file, fields := decode.Files(c)
	if file.Path == "-" {
		return nil, ErrNoData
	}
	p, err := decode.NewParser(fields)
	if err != nil {
		return nil, err
	}
	if err := decode.CheckTimes(file, p); err != nil {
		return nil, err
	}
	found, err := connectors.Sample(file, sampleRecords)
	if err != nil {
		return nil, err
	}
	l := &Result{Path: file.Path, Columns: found.Columns, Whole: found.Whole, Places: len(found.Records)}
	s := newSample(p, l)
	if s.lateness = c.Lateness; c.Aggregate != nil {
		s.lateness += c.Aggregate.Wait
	}
	var rounded sync.Once
	p.OnRounded = func(text string, read float64) {
		rounded.Do(func() {
			l.Remarks.add(false, "", "whole numbers beyond 2^53 are rounded: %s is read as %s", message.Shorten(text), strconv.FormatFloat(read, 'f', 0, 64))
		})
	}
	d := decode.NewDecoder(file.Format, p)
	for _, records := range found.Records {
		clear(s.last)
		clear(s.seen)
		for _, r := range records {
			if l.Records >= sampleObservations {
				break
			}
			d.File([]connectors.Record{r}, func(found []decode.Decoded) {
				for i := range found {
					s.add(r, &found[i])
				}
			})
		}
	}
	s.finish(c, file.Format)
	if key, ok := s.missingKey(c, file, fields); ok {
		l.Suggestions = append([]Suggestion{key}, l.Suggestions...)
	}
	s.remarks(c)
	return s, nil
}

// sniffQuery is sniffRecords for a query.
func sniffQuery(c *config.Config) (*sample, error) {
	p, err := decode.NewParser(config.Fields{Zone: "UTC"})
	if err != nil {
		return nil, err
	}
	l := &Result{Path: c.Source.Prometheus().Query, Queried: true}
	s := newSample(p, l)
	all, err := promio.Last(context.Background(), c.Source.Prometheus().Source, sampleObservations)
	if err != nil {
		return nil, err
	}
	decode.NewDecoder("", p).Series(all, func(found []decode.Decoded) {
		for i := range found {
			s.add(connectors.Record{}, &found[i])
		}
	})
	s.finish(c, "prometheus")
	return s, nil
}

func newSample(p *decode.Parser, l *Result) *sample {
	return &sample{parser: p, result: l, keys: map[string]*visits{}, timed: map[string][]keyed.Observation{}, last: map[string]time.Time{}, seen: map[moment]bool{}, words: map[string]int{}}
}

// finish says what all records together show.
func (s *sample) finish(c *config.Config, format string) {
	l := s.result
	l.Rejections = s.rejects.Commonest()
	tied := 0
	for _, key := range l.Keys {
		v := s.keys[key]
		if _, rises := climbs(v.numbers); rises && (c.Aggregate == nil || c.Aggregate.Value != keyed.Increase) {
			l.Counters = append(l.Counters, key)
		}
		if v.n == 1 && len(l.Keys) > 1 {
			l.Single++
		}
		if v.tied > tied && 2*v.tied > v.n && v.n > 3 {
			tied, l.TiedKey = v.tied, key
		}
	}
	if l.Single > 0 && !l.Whole && (s.parser.Layout == config.Wide || s.recurring()) { // a column goes on
		l.Single = 0
	}
	s.findFar(time.Now())
	if len(s.steps) > 0 {
		slices.Sort(s.steps)
		l.Step = s.steps[len(s.steps)/2]
	}
	l.Suggestions = s.suggestions(c, format)
	s.rules(c)
	if c.Transform == settings.Smooth && c.SessionOrder() == keyed.EventTime && c.Aggregate == nil {
		s.sessions(keyed.SmoothConfig{Gap: c.Session.Gap})
	}
	if c.Incidents != nil && l.Parsed > 0 {
		values := series.Values(l.Keys)
		for _, name := range c.Incidents.By {
			if values[name] == nil {
				l.Remarks.add(true, "incidents.by", "no key has the label %s; their labels are %s", message.Quote(name), message.Some(slices.Sorted(maps.Keys(values)), 8))
			}
		}
	}
}

// recurring reports whether keys that a sample has seen once have more records in the file: of keys that
// all come n times, two records of a sample are of one key so much the more often.
func (s *sample) recurring() bool {
	pairs := 0.
	for _, v := range s.keys {
		pairs += float64(v.n) * float64(v.n-1) / 2
	}
	n := float64(s.result.Parsed)
	return pairs > 0 && n*n/(2*pairs) < 4*n
}

// A sample is what a Result gathers on the way.
type sample struct {
	parser   *decode.Parser
	result   *Result
	lateness time.Duration
	keys     map[string]*visits
	timed    map[string][]keyed.Observation // by key
	last     map[string]time.Time           // of the record before, by key, in one place of the file
	seen     map[moment]bool
	steps    []time.Duration
	times    []timedPlace
	rejects  records.Rejections

	read       []byte // the JSON object that texts has read last, of which there may be many observations
	readAt     string
	readValues []string

	words       map[string]int // texts in place of numbers
	badTime     []string       // texts in place of times
	suspectTime []string       // numbers that are times before 1973
	ahead       bool           // some of the far times are in the future
	early       timedPlace     // the first record that comes after a later one of its key
}

// visits are the records of a key.
type visits struct {
	n, tied int
	end     time.Time // latest
	from    time.Time // first
	numbers []float64 // of observations of one number
	hours   []int8    // of their times
}

type moment struct {
	key string
	at  int64
}

// timedPlace is the time of an observation and where it stands.
type timedPlace struct {
	at    time.Time
	place string
}

// findFar counts the observations whose times lie far beyond the bulk, which is the earlier 95 %.
// Far is more than ten times what the bulk spans and more than a day, or more than once if it is
// in the future and the bulk is not.
func (s *sample) findFar(now time.Time) {
	const few = 5                              // times, of which none is a bulk
	const century = 100 * 365 * 24 * time.Hour // a Duration holds almost three
	if len(s.times) < few {
		return
	}
	sorted := slices.SortedFunc(slices.Values(s.times), func(a, b timedPlace) int { return a.at.Compare(b.at) })
	end := sorted[(len(sorted)-1)*95/100].at
	span := min(end.Sub(sorted[0].at), century/10)
	far := end.Add(max(24*time.Hour, 10*span))
	if once := end.Add(span); end.Before(now) && once.Before(far) && far.After(now.Add(time.Hour)) {
		if far = once; far.Before(now.Add(time.Hour)) {
			far = now.Add(time.Hour)
		}
	}
	for _, t := range s.times {
		if !t.at.After(far) {
			continue
		}
		if s.result.Far++; s.result.Far == 1 {
			s.result.FirstFar = t.place
		}
		s.ahead = s.ahead || t.at.After(now.Add(time.Hour))
	}
}

// add adds a record and what it became.
func (s *sample) add(r connectors.Record, d *decode.Decoded) {
	l := s.result
	if l.Records == 0 && r.Reason == "" && len(l.Columns) == 0 {
		// A line that is no object has no fields.
		_ = decode.Leaves(r.Raw, func(path, _ string, _ bool) { l.Columns = append(l.Columns, path) })
	}
	l.Records += max(1, d.Lost)
	if d.Err != nil {
		s.rejects.Add(d.Err.Error(), d.ID, d.Raw, max(1, d.Lost))
		at, values := s.textsOf(r)
		if _, err := s.parser.ParseTime(at); err != nil {
			s.badTime = append(s.badTime, at)
		}
		for _, v := range values {
			if _, err := s.parser.Number(v); err != nil {
				s.words[v]++
			}
		}
		return
	}
	l.Parsed++
	v := s.keys[d.Key]
	if v == nil {
		v = new(visits)
		s.keys[d.Key] = v
		l.Keys = append(l.Keys, d.Key)
	}
	v.n++
	if !d.Time.IsZero() {
		s.addTime(r, d, v)
	}
	for _, x := range d.X {
		for _, component := range x {
			l.number(component)
		}
		if len(x) == 1 && !math.IsNaN(x[0]) {
			v.numbers = append(v.numbers, x[0])
			v.hours = append(v.hours, int8(d.Time.Hour()))
		}
	}
}

// addTime adds the time of a record. v are the visits to its key, this one among them.
func (s *sample) addTime(r connectors.Record, d *decode.Decoded, v *visits) {
	l, t := s.result, d.Time
	l.First, l.Last = clock.Earlier(l.First, t), clock.Later(l.Last, t)
	l.Timed++
	o := d.Observation
	o.X = slices.Clone(o.X)
	for i, x := range o.X {
		o.X[i] = slices.Clone(x)
	}
	s.timed[d.Key] = append(s.timed[d.Key], o)
	s.times = append(s.times, timedPlace{t, d.ID})
	if t.Year() < 1973 {
		at, _ := s.textsOf(r)
		s.suspectTime = append(s.suspectTime, at)
	}
	if at, _ := s.textsOf(r); s.parser.LeavesOut(at) {
		if l.LeftOut++; l.LeftOut == 1 {
			l.FirstLeft = d.ID
		}
	}
	m := moment{d.Key, t.UnixNano()}
	last, stepped := s.last[d.Key]
	if s.seen[m] {
		l.Tied++
		v.tied++
	}
	if v.n > 1 && t.Before(v.end) {
		if l.Early++; l.Early == 1 {
			s.early = timedPlace{t, d.ID}
		}
		l.Behind = max(l.Behind, v.end.Sub(t))
		if t.Add(s.lateness).Before(v.end) {
			l.Late++
		}
	}
	if stepped {
		s.steps = append(s.steps, t.Sub(last).Abs())
		if t.Before(last) {
			l.Back++
		}
	}
	s.seen[m] = true
	s.last[d.Key] = t
	v.from, v.end = clock.Earlier(v.from, t), clock.Later(v.end, t)
}

// number adds a number.
func (l *Result) number(v float64) {
	l.Components++
	if math.IsNaN(v) {
		l.Missing++
		return
	}
	if l.Components-l.Missing == 1 {
		l.Min, l.Max = v, v
	}
	l.Min, l.Max = math.Min(l.Min, v), math.Max(l.Max, v)
	switch {
	case v == 0:
		l.Zero++
	case v < 0:
		l.Negative++
	}
	if v != math.Trunc(v) {
		l.Fractions++
	}
}

// textsOf returns the texts of a record's time and values, "" where they cannot be told.
func (s *sample) textsOf(r connectors.Record) (at string, values []string) {
	if r.Fields != nil {
		keys := s.parser.TimeAt()
		for _, v := range r.Fields[keys+1:] {
			values = append(values, strings.TrimSpace(v))
		}
		return strings.TrimSpace(s.parser.RowTime(r.Fields)), values
	}
	if r.Reason != "" {
		return "", nil
	}
	if len(s.read) > 0 && len(r.Raw) > 0 && &s.read[0] == &r.Raw[0] {
		return s.readAt, s.readValues
	}
	leaves := map[string]string{}
	if err := decode.Leaves(r.Raw, func(path, text string, scalar bool) {
		if scalar {
			leaves[path] = text
		}
	}); err != nil {
		return "", nil
	}
	for _, name := range s.parser.Values {
		values = append(values, leaves[name])
	}
	s.read, s.readAt, s.readValues = r.Raw, "", values
	for _, name := range s.parser.Time {
		s.readAt = strings.TrimSpace(s.readAt + " " + leaves[name])
	}
	return s.readAt, values
}

// suggestions says what the config might say besides.
func (s *sample) suggestions(c *config.Config, format string) (all []Suggestion) {
	l := s.result
	add := func(key, value, why string) { all = append(all, Suggestion{key, value, why}) }
	source := "source." + format + "."
	s.suggestTexts(source, add)
	suspect := s.badTime
	if len(suspect) == 0 {
		suspect = s.suspectTime
	}
	if formats := times.FormatsOf(suspect); len(formats) > 0 {
		why := "the times have this form"
		if len(formats) > 1 {
			why = "or " + config.YAMLText(formats[1]) + ", which fits the times as well"
		}
		add(source+"time_format", config.YAMLText(formats[0]), why)
	}
	if l.Parsed == 0 {
		return all
	}
	if s.ahead && s.parser.MaxAhead == 0 {
		add(source+"max_ahead", "1h", "if times in the future are wrong")
	}
	setting, waits := "lateness", c.Lateness
	if c.Aggregate != nil {
		setting, waits = "aggregate.wait", c.Lateness+c.Aggregate.Wait
	}
	if c.Transform == settings.Filter && c.Order == settings.EventTime && l.Behind > waits && l.Far == 0 {
		switch span := l.Last.Sub(l.First); {
		case 10*l.Back > 9*len(s.steps) && len(s.steps) > 0:
			add(setting, message.Duration(message.RoundUp(span+span/4)), "the newest records come first: all wait for the oldest")
		case s.autumn() == "" && l.LeftOut == 0 && l.Behind <= max(3*l.Step, 24*time.Hour-1):
			add(setting, message.Duration(message.RoundUp(l.Behind)), fmt.Sprintf("%s up to %v after a later one of the key", message.Count(l.Early, "record comes", "records come"), l.Behind))
		}
	}
	family := s.family()
	if family != "normal" && c.Model.Family == "normal" {
		add("model.family", family, familyReasons[family])
	}
	if c.Model.Family == "normal" && family == "normal" && c.Model.Scale == hafvf.Linear {
		if scale, why := s.scale(); scale != "" {
			add("model.scale", string(scale), why)
		}
	}
	if value, why := s.warmUp(c); value != "" {
		add("model.warm_up", value, why)
	}
	if value, why := s.detect(c); value != "" {
		add("detect", value, why)
	}
	n := l.Components - l.Missing
	rare := l.Fractions == 0 && l.Min == 0 && l.Max == 1 && 10*min(l.Zero, n-l.Zero) < n
	if c.Detect != nil && rare && reflect.DeepEqual(c.Bank, hafvf.DefaultBankOf(c.Model.Family)) {
		add("bank", "[{levels: [], top: 0.9998}]", "one of the values is rare: the default bank follows single ones")
	}
	return all
}

// suggestTexts suggests how the texts that were not read as numbers may be read.
func (s *sample) suggestTexts(source string, add func(key, value, why string)) {
	l := s.result
	// Texts that are numbers in another form call for it; others may stand for missing values.
	form := decode.NumbersOf(slices.Collect(maps.Keys(s.words)))
	p := form.Parser()
	var words []string
	texts := 0
	for w, n := range s.words {
		number, unit, has := decode.Unit(w)
		if !has {
			number = w
		}
		if _, err := p.Number(number); err == nil {
			if texts += n; unit == "" || len(form.Units) == 1 {
				continue
			}
		}
		if unit == "" && (n > 1 || decode.Absent(w)) {
			words = append(words, w)
		}
	}
	if texts > 0 {
		numberKeys(form, func(key, value string) { add(source+key, value, fmt.Sprintf("%d numbers are written so", texts)) })
	}
	if len(form.Units) > 1 {
		l.Remarks.add(true, "unit", "numbers have several units, %s: bring them to one", message.Some(form.Units, 4))
	}
	if len(words) > 0 {
		slices.SortFunc(words, func(a, b string) int { return cmp.Or(cmp.Compare(s.words[b], s.words[a]), cmp.Compare(a, b)) })
		add(source+"missing", config.YAMLList(slices.Concat(s.parser.Missing, words[:min(len(words), 8)])), "if these texts stand for missing values")
	}
}

var familyReasons = map[string]string{
	"bernoulli": "the values are 0 and 1",
	"poisson":   "if the values are counts; they are whole and not negative",
}

// leastBudget is the number of observations per alarm below which a budget is spent on
// chance.
const leastBudget = 100

// scale returns that on which the values are to be learned, and why; empty for their own.
func (s *sample) scale() (scale hafvf.Scale, why string) {
	series, hours := s.series()
	if scale := scaleOf(series); scale != hafvf.Linear {
		return scale, "the values scatter by factors: their upper tail is the long one"
	}
	if mean, dispersion, sd := dispersion(series, hours); s.result.Negative == 0 && s.result.Fractions == 0 && mean > 0 && dispersion >= 2 && sd > .3*mean {
		return hafvf.Sqrt, "the values are counts, which scatter the more the higher they are"
	}
	return "", ""
}

// String is the look as a person reads it.
func (l *Result) String() string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-8s %s\n", name, fmt.Sprintf(format, args...))
	}
	switch {
	case l.Records == 0 && l.Queried:
		line("data", "%s has no points of late", l.Path)
	case l.Records == 0:
		line("data", "%s has no records", l.Path)
	case l.Queried:
		line("data", "%s, the last %d points", l.Path, l.Records)
	default:
		line("data", "%s, %s", l.Path, l.read())
	}
	if len(l.Columns) > 0 {
		line("columns", "%s", message.Some(l.Columns, 20))
	}
	if l.Parsed > 0 {
		line("keys", "%d: %s", len(l.Keys), message.Some(l.Keys, 8))
	}
	for i, r := range l.Rules {
		of := "no key of these"
		if len(r.Keys) > 0 {
			of = message.Count(len(r.Keys), "key", "keys") + ", " + message.Some(r.Keys, 4)
		}
		line("rule", "keys.%d %s matches %s", i, domain.ShowPattern(r.Match), of)
	}
	switch {
	case l.Timed > 0:
		step := ""
		if l.Step > 0 {
			step = ", median step of a key " + message.Duration(l.Step)
		}
		line("times", "%s to %s%s", l.First.Format(time.RFC3339), l.Last.Format(time.RFC3339), step)
	case l.Parsed > 0:
		line("times", "none")
	}
	if l.Far > 0 {
		line("far", "%s far beyond the others, the first at %s", message.Count(l.Far, "time lies", "times lie"), l.FirstFar)
	}
	if l.Records > 0 {
		text := fmt.Sprintf("%s of the records parse", message.Percent(l.Parsed, l.Records))
		if n := l.Components - l.Missing; n > 0 {
			text += fmt.Sprintf(", %s are missing; %g to %g, %s zero, %s negative", message.Percent(l.Missing, l.Components), l.Min, l.Max, message.Percent(l.Zero, n), message.Percent(l.Negative, n))
		}
		line("values", "%s", text)
	}
	if len(l.Counters) > 0 {
		how := "aggregate: {every: 1h, value: increase} learns their increases"
		if l.Queried {
			how = "ask for its rate(…[5m])"
		}
		line("counters", "the values of %s rise and do not fall, as those of a counter: %s; %s", message.Count(len(l.Counters), "key", "keys"), how, message.Some(l.Counters, 4))
	}
	if l.Restarts > 0 {
		line("restarts", "%d of counters: they fall to less than half, which is no wrap", l.Restarts)
	}
	for _, r := range l.Remarks {
		line("remark", "%s", r)
	}
	for _, r := range l.Rejections {
		line("rejected", "%d × %s", r.Count, r.Reason)
		line("", "%s: %s", r.Place, message.Printable(r.Raw))
	}
	if s := l.Sessions; s.N > 0 {
		line("sessions", "%d in these records, at gaps of %s", s.N, message.Range(s.LeastGap, s.LargestGap))
	}
	for _, s := range l.Suggestions {
		line("suggest", "%s: %s  # %s", s.Key, s.Value, s.Why)
	}
	return b.String()
}

// season returns the season that the observations call for, and why; both are empty if there is none.
func (s *sample) season(c *config.Config) (season, why string) {
	if c.Aggregate != nil && s.result.Places > 1 {
		return "", "" // intervals have gaps
	}
	return seasontrial.Season(c, s.timed, s.result.Last.Sub(s.result.First), s.result.Step)
}

// read says which records were read.
func (l *Result) read() string {
	switch {
	case l.Whole:
		return fmt.Sprintf("all %d records", l.Records)
	case l.Places > 1:
		return fmt.Sprintf("%d records of %d places", l.Records, l.Places)
	}
	return fmt.Sprintf("the first %d records", l.Records)
}
