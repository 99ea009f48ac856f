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

// ErrNoData means that a source cannot be inspected without consuming its records or connecting to it.
var ErrNoData = errors.New("topics and standard input cannot be inspected")

// A Result describes the first records of files, or the last points of a query, as a config reads them.
type Result struct {
	Path    string // or the query
	Queried bool   // the records are the last points of a query
	Places  int    // number of places in the file that the records come from
	Whole   bool   // the source has no other records
	Records int
	Columns []string // columns of a table, or fields of JSON objects

	Parsed     int // number of records that are observations
	Rejections []records.Rejection
	Keys       []string // in the order of their first records

	Timed        int // observations with a time
	First, Last  time.Time
	Far          int           // observations with a time far beyond the others
	FirstFar     string        // place of the first observation counted in Far
	Step         time.Duration // median step between observations of a key
	Early        int           // observations that are earlier than a previous record of their key
	MaxDelay     time.Duration // largest distance of such an observation to the latest previous time
	Late         int           // early observations that a run would reject
	Back         int           // steps of a key to an earlier time
	SkippedTimes int           // times that do not exist because the clock of the zone was set forward
	FirstSkipped string        // place of the first time counted in SkippedTimes
	Tied         int           // observations that repeat a time of their key
	TiedKey      string        // key with the most of these, if they are most of its records
	Single       int           // keys with only one record, where more are expected
	Components   int           // numbers in the observations, including missing ones
	Missing      int
	Zero         int
	Negative     int
	Fractions    int // numbers that are not whole
	Min, Max     float64
	Counters     []string // keys whose values rise and hardly ever fall
	Restarts     int      // resets of counters whose increase is computed
	Rules        []Rule   // one per exception in keys, in their order
	Suggestions  []Suggestion
	Remarks      Remarks
	Sessions     Sessions // filled for transform: smooth with event times
}

// A Suggestion is a config key that the records call for.
type Suggestion struct {
	Key, Value string // as YAML
	Why        string
}

// Inspect reads the first records of the config's source, or the last points of its query. It returns ErrNoData for
// topics and standard input. Other errors also occur in a run.
func Inspect(c *config.Config) (*Result, error) {
	s, err := sniffRecords(c)
	if err != nil {
		return nil, err
	}
	if s.result.Timed == 0 && !s.result.Queried {
		file, fields := decode.Files(c)
		if t, err := readTable(file.Path); err == nil {
			s.repeats(t, fields.Key)
		}
	}
	if season, why := s.season(c); season != "" {
		s.result.Suggestions = append(s.result.Suggestions, Suggestion{"model.season", season, why})
	}
	return s.result, nil
}

// sniffRecords is Inspect without the season, whose search takes long.
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
	remark := ""
	if fields.TimeFormat, remark, err = decode.CheckFiles(file, p); err != nil {
		return nil, err
	}
	if p, err = decode.NewParser(fields); err != nil {
		return nil, err
	}
	found, err := connectors.Sample(file, sampleRecords)
	if err != nil {
		return nil, err
	}
	res := &Result{Path: file.Path, Columns: found.Columns, Whole: found.Whole, Places: len(found.Records)}
	s := newSample(p, res)
	if remark != "" {
		res.Remarks.add(false, "time_format", "%s", remark)
	}
	if s.lateness = c.Lateness; c.Aggregate != nil {
		s.lateness += c.Aggregate.Wait
	}
	var rounded sync.Once
	p.OnRounded = func(text string, read float64) {
		rounded.Do(func() {
			res.Remarks.add(false, "", "whole numbers beyond 2^53 are rounded: %s is read as %s", message.Shorten(text), strconv.FormatFloat(read, 'f', 0, 64))
		})
	}
	d := decode.NewDecoder(file.Format, p)
	for _, records := range found.Records {
		clear(s.last)
		clear(s.seen)
		for _, r := range records {
			if res.Records >= sampleObservations {
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
		res.Suggestions = append([]Suggestion{key}, res.Suggestions...)
	}
	s.remarks(c)
	return s, nil
}

// sniffQuery does the same as sniffRecords for a query.
func sniffQuery(c *config.Config) (*sample, error) {
	p, err := decode.NewParser(config.Fields{Zone: "UTC"})
	if err != nil {
		return nil, err
	}
	res := &Result{Path: c.Source.Prometheus().Query, Queried: true}
	s := newSample(p, res)
	points, err := promio.Last(context.Background(), c.Source.Prometheus().Source, sampleObservations)
	if err != nil {
		return nil, err
	}
	decode.NewDecoder("", p).Series(points, func(found []decode.Decoded) {
		for i := range found {
			s.add(connectors.Record{}, &found[i])
		}
	})
	s.finish(c, "prometheus")
	return s, nil
}

func newSample(p *decode.Parser, res *Result) *sample {
	return &sample{parser: p, result: res, keys: map[string]*visits{}, timed: map[string][]keyed.Observation{}, last: map[string]time.Time{}, seen: map[moment]bool{}, words: map[string]int{}, parts: map[part]*tally{}}
}

// finish computes what needs all records of the sample.
func (s *sample) finish(c *config.Config, format string) {
	res := s.result
	res.Rejections = s.rejects.MostFrequent()
	tied := 0
	for _, key := range res.Keys {
		v := s.keys[key]
		if _, rises := climbs(v.numbers); rises && (c.Aggregate == nil || c.Aggregate.Value != keyed.Increase) {
			res.Counters = append(res.Counters, key)
		}
		if v.n == 1 && len(res.Keys) > 1 {
			res.Single++
		}
		if v.tied > tied && 2*v.tied > v.n && v.n > 3 {
			tied, res.TiedKey = v.tied, key
		}
	}
	if res.Single > 0 && !res.Whole && (s.parser.Layout == config.Wide || s.recurring()) { // wide columns continue
		res.Single = 0
	}
	s.findFar(time.Now())
	if len(s.steps) > 0 {
		slices.Sort(s.steps)
		res.Step = s.steps[len(s.steps)/2]
	}
	res.Suggestions = s.suggestions(c, format)
	s.rules(c)
	if c.Transform == settings.Smooth && c.SessionOrder() == keyed.EventTime && c.Aggregate == nil {
		s.sessions(keyed.SmoothConfig{Gap: c.Session.Gap})
	}
	if c.Incidents != nil && res.Parsed > 0 {
		values := series.Values(res.Keys)
		for _, name := range c.Incidents.By {
			if values[name] == nil {
				res.Remarks.add(true, "incidents.by", "no key has the label %s; their labels are %s", message.Quote(name), message.Some(slices.Sorted(maps.Keys(values)), 8))
			}
		}
	}
}

// recurring reports whether keys with one record in the sample have more records in the file. The more records each
// key has in the file, the more often two records of a sample share a key. The number of keys that this suggests must
// be below four times the number of records in the sample.
func (s *sample) recurring() bool {
	pairs := 0.
	for _, v := range s.keys {
		pairs += float64(v.n) * float64(v.n-1) / 2
	}
	n := float64(s.result.Parsed)
	return pairs > 0 && n*n/(2*pairs) < 4*n
}

// A sample collects the records of a Result.
type sample struct {
	parser   *decode.Parser
	result   *Result
	lateness time.Duration
	keys     map[string]*visits
	timed    map[string][]keyed.Observation // by key
	last     map[string]time.Time           // previous time by key, within one place of the file
	seen     map[moment]bool
	steps    []time.Duration
	times    []timedPlace
	rejects  records.Rejections

	read       []byte // JSON object that textsOf parsed last; it may hold many observations
	readTime   string
	readValues []string

	words       map[string]int // count of each text that is not a number
	badTime     []string       // texts that are not times
	suspectTime []string       // numbers that are read as times before 1973
	parts       map[part]*tally
	ahead       bool       // some of the far times are in the future
	early       timedPlace // first record that is earlier than a previous one of its key
}

// visits are the records of one key.
type visits struct {
	n, tied int
	latest  time.Time // latest time
	first   time.Time // earliest time
	numbers []float64 // values of observations with one number
	hours   []uint8   // hour of the week of each number
}

type moment struct {
	key   string
	nanos int64
}

// A timedPlace is the time of an observation and its place in the source.
type timedPlace struct {
	time  time.Time
	place string
}

// findFar counts the observations whose times lie far beyond the bulk, which is the earliest 95 %. A time is far if
// it is later than the end of the bulk by more than ten times the span of the bulk, and by more than a day. If the
// bulk lies in the past, times in the future are far beyond one span.
func (s *sample) findFar(now time.Time) {
	const minTimes = 5                         // fewer times have no bulk
	const century = 100 * 365 * 24 * time.Hour // a Duration holds almost three
	if len(s.times) < minTimes {
		return
	}
	sorted := slices.SortedFunc(slices.Values(s.times), func(a, b timedPlace) int { return a.time.Compare(b.time) })
	end := sorted[(len(sorted)-1)*95/100].time
	span := min(end.Sub(sorted[0].time), century/10)
	far := end.Add(max(24*time.Hour, 10*span))
	if once := end.Add(span); end.Before(now) && once.Before(far) && far.After(now.Add(time.Hour)) {
		if far = once; far.Before(now.Add(time.Hour)) {
			far = now.Add(time.Hour)
		}
	}
	for _, t := range s.times {
		if !t.time.After(far) {
			continue
		}
		if s.result.Far++; s.result.Far == 1 {
			s.result.FirstFar = t.place
		}
		s.ahead = s.ahead || t.time.After(now.Add(time.Hour))
	}
}

// add adds a record and the observation decoded from it.
func (s *sample) add(r connectors.Record, d *decode.Decoded) {
	res := s.result
	if res.Records == 0 && r.Reason == "" && len(res.Columns) == 0 {
		// A line that is not a JSON object has no fields.
		_ = decode.Leaves(r.Raw, func(path, _ string, _ bool) { res.Columns = append(res.Columns, path) })
	}
	res.Records += max(1, d.LostObservations)
	s.countParts(r, d)
	if d.Err != nil {
		s.rejects.Add(d.Err.Error(), d.ID, d.Raw, max(1, d.LostObservations))
		timeText, values := s.textsOf(r)
		if _, err := s.parser.ParseTime(timeText); err != nil {
			s.badTime = append(s.badTime, timeText)
		}
		for _, v := range values {
			if _, err := s.parser.Number(v); err != nil {
				s.words[v]++
			}
		}
		return
	}
	res.Parsed++
	v := s.keys[d.Key]
	if v == nil {
		v = new(visits)
		s.keys[d.Key] = v
		res.Keys = append(res.Keys, d.Key)
	}
	v.n++
	if !d.Time.IsZero() {
		s.addTime(r, d, v)
	}
	for _, x := range d.X {
		for _, component := range x {
			res.number(component)
		}
		if len(x) == 1 && !math.IsNaN(x[0]) {
			v.numbers = append(v.numbers, x[0])
			v.hours = append(v.hours, uint8(int(d.Time.Weekday())*24+d.Time.Hour()))
		}
	}
}

// addTime adds the time of a record. v are the records of its key, including this one.
func (s *sample) addTime(r connectors.Record, d *decode.Decoded, v *visits) {
	res, t := s.result, d.Time
	res.First, res.Last = clock.Earlier(res.First, t), clock.Later(res.Last, t)
	res.Timed++
	o := d.Observation
	o.X = slices.Clone(o.X)
	for i, x := range o.X {
		o.X[i] = slices.Clone(x)
	}
	s.timed[d.Key] = append(s.timed[d.Key], o)
	s.times = append(s.times, timedPlace{t, d.ID})
	if t.Year() < 1973 {
		timeText, _ := s.textsOf(r)
		s.suspectTime = append(s.suspectTime, timeText)
	}
	if timeText, _ := s.textsOf(r); s.parser.IsSkippedTime(timeText) {
		if res.SkippedTimes++; res.SkippedTimes == 1 {
			res.FirstSkipped = d.ID
		}
	}
	m := moment{d.Key, t.UnixNano()}
	last, stepped := s.last[d.Key]
	if s.seen[m] {
		res.Tied++
		v.tied++
	}
	if v.n > 1 && t.Before(v.latest) {
		if res.Early++; res.Early == 1 {
			s.early = timedPlace{t, d.ID}
		}
		res.MaxDelay = max(res.MaxDelay, v.latest.Sub(t))
		if t.Add(s.lateness).Before(v.latest) {
			res.Late++
		}
	}
	if stepped {
		s.steps = append(s.steps, t.Sub(last).Abs())
		if t.Before(last) {
			res.Back++
		}
	}
	s.seen[m] = true
	s.last[d.Key] = t
	v.first, v.latest = clock.Earlier(v.first, t), clock.Later(v.latest, t)
}

// number adds a number of an observation.
func (res *Result) number(v float64) {
	res.Components++
	if math.IsNaN(v) {
		res.Missing++
		return
	}
	if res.Components-res.Missing == 1 {
		res.Min, res.Max = v, v
	}
	res.Min, res.Max = math.Min(res.Min, v), math.Max(res.Max, v)
	switch {
	case v == 0:
		res.Zero++
	case v < 0:
		res.Negative++
	}
	if v != math.Trunc(v) {
		res.Fractions++
	}
}

// textsOf returns the texts of a record's time and values. They are empty if the record cannot be split into fields.
func (s *sample) textsOf(r connectors.Record) (timeText string, values []string) {
	if r.Fields != nil {
		nTimes := s.parser.TimeAt()
		for _, v := range r.Fields[nTimes+1:] {
			values = append(values, strings.TrimSpace(v))
		}
		return strings.TrimSpace(s.parser.RowTime(r.Fields)), values
	}
	if r.Reason != "" {
		return "", nil
	}
	if len(s.read) > 0 && len(r.Raw) > 0 && &s.read[0] == &r.Raw[0] {
		return s.readTime, s.readValues
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
	s.read, s.readTime, s.readValues = r.Raw, "", values
	for _, name := range s.parser.Time {
		s.readTime = strings.TrimSpace(s.readTime + " " + leaves[name])
	}
	return s.readTime, values
}

// suggestions returns further config keys that the records call for.
func (s *sample) suggestions(c *config.Config, format string) (found []Suggestion) {
	res := s.result
	add := func(key, value, why string) { found = append(found, Suggestion{key, value, why}) }
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
	if res.Parsed == 0 {
		return found
	}
	if s.ahead && s.parser.MaxAhead == 0 {
		add(source+"max_ahead", "1h", "if times in the future are wrong")
	}
	setting, wait := "lateness", c.Lateness
	if c.Aggregate != nil {
		setting, wait = "aggregate.wait", c.Lateness+c.Aggregate.Wait
	}
	if c.Transform == settings.Filter && c.Order == settings.EventTime && res.MaxDelay > wait && res.Far == 0 {
		switch span := res.Last.Sub(res.First); {
		case 10*res.Back > 9*len(s.steps) && len(s.steps) > 0:
			add(setting, message.Duration(message.RoundUp(span+span/4)), "the newest records come first: all wait for the oldest")
		case s.clockSetBack() == "" && res.SkippedTimes == 0 && res.MaxDelay <= max(3*res.Step, 24*time.Hour-1):
			add(setting, message.Duration(message.RoundUp(res.MaxDelay)), fmt.Sprintf("%s late by up to %v", message.Count(res.Early, "record is", "records are"), res.MaxDelay))
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
	n := res.Components - res.Missing
	rare := res.Fractions == 0 && res.Min == 0 && res.Max == 1 && 10*min(res.Zero, n-res.Zero) < n
	if c.Detect != nil && rare && reflect.DeepEqual(c.Bank, hafvf.DefaultBankFor(c.Model.Family)) {
		add("bank", "[{levels: [], top: 0.9998}]", "one of the values is rare: the default bank reacts to single occurrences")
	}
	return found
}

// suggestTexts suggests settings for the texts that were not read as numbers.
func (s *sample) suggestTexts(source string, add func(key, value, why string)) {
	res := s.result
	// Texts that are numbers in another form call for that form. Other texts may mean missing values.
	form := decode.NumbersOf(slices.Collect(maps.Keys(s.words)))
	p := form.Parser()
	var words []string
	texts := 0
	for w, n := range s.words {
		number, unit, hasUnit := decode.Unit(w)
		if !hasUnit {
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
		numberKeys(form, func(key, value string) { add(source+key, value, fmt.Sprintf("%d numbers are written this way", texts)) })
	}
	if len(form.Units) > 1 {
		res.Remarks.add(true, "unit", "numbers have several units, %s: convert them to one unit", message.Some(form.Units, 4))
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

// minBudgetObservations is the minimum number of observations per alarm. A smaller budget is spent on chance alarms.
const minBudgetObservations = 100

// span returns the time between the first and the last observation.
func (s *sample) span() time.Duration { return s.result.Last.Sub(s.result.First) }

// scale returns the scale on which the values should be learned, and the reason. Both are empty if the values need no
// scale.
func (s *sample) scale() (scale hafvf.Scale, why string) {
	series, hours := s.series()
	if scale := scaleOf(series, hours, s.span()); scale != hafvf.Linear {
		return scale, "the values differ by factors: their upper tail is longer"
	}
	if mean, dispersion, sd := dispersion(series, hours); s.result.Negative == 0 && s.result.Fractions == 0 && mean > 0 && dispersion >= 2 && sd > .3*mean {
		return hafvf.Sqrt, "the values are counts, whose spread grows with their level"
	}
	return "", ""
}

// String returns the result as text for a person.
func (res *Result) String() string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-8s %s\n", name, fmt.Sprintf(format, args...))
	}
	switch {
	case res.Records == 0 && res.Queried:
		line("data", "%s has no recent points", res.Path)
	case res.Records == 0:
		line("data", "%s has no records", res.Path)
	case res.Queried:
		line("data", "%s, the last %d points", res.Path, res.Records)
	default:
		line("data", "%s, %s", res.Path, res.read())
	}
	if len(res.Columns) > 0 {
		line("columns", "%s", message.Some(res.Columns, 20))
	}
	if res.Parsed > 0 {
		line("keys", "%d: %s", len(res.Keys), message.Some(res.Keys, 8))
	}
	for i, r := range res.Rules {
		matches := "none of these keys"
		if len(r.Keys) > 0 {
			matches = message.Count(len(r.Keys), "key", "keys") + ", " + message.Some(r.Keys, 4)
		}
		line("rule", "keys.%d %s matches %s", i, domain.ShowPattern(r.Match), matches)
	}
	switch {
	case res.Timed > 0:
		step := ""
		if res.Step > 0 {
			step = ", median step of a key " + message.Duration(res.Step)
		}
		line("times", "%s to %s%s", res.First.Format(time.RFC3339), res.Last.Format(time.RFC3339), step)
	case res.Parsed > 0:
		line("times", "none")
	}
	if res.Far > 0 {
		line("far", "%s far beyond the others, the first at %s", message.Count(res.Far, "time lies", "times lie"), res.FirstFar)
	}
	if res.Records > 0 {
		text := fmt.Sprintf("%s of the records parse", message.Percent(res.Parsed, res.Records))
		if n := res.Components - res.Missing; n > 0 {
			text += fmt.Sprintf(", %s are missing; %g to %g, %s zero, %s negative", message.Percent(res.Missing, res.Components), res.Min, res.Max, message.Percent(res.Zero, n), message.Percent(res.Negative, n))
		}
		line("values", "%s", text)
	}
	if len(res.Counters) > 0 {
		how := "aggregate: {every: 1h, value: increase} learns their increases"
		if res.Queried {
			how = "ask for its rate(…[5m])"
		}
		line("counters", "the values of %s rise and do not fall, like a counter: %s; %s", message.Count(len(res.Counters), "key", "keys"), how, message.Some(res.Counters, 4))
	}
	if res.Restarts > 0 {
		line("restarts", "%s: a fall to less than half is a reset", message.Count(res.Restarts, "counter reset", "counter resets"))
	}
	for _, r := range res.Remarks {
		line("remark", "%s", r)
	}
	for _, r := range res.Rejections {
		line("rejected", "%d × %s", r.Count, r.Reason)
		line("", "%s: %s", r.Place, message.Printable(r.Raw))
	}
	if s := res.Sessions; s.N > 0 {
		line("sessions", "%d in these records, at gaps of %s", s.N, message.Range(s.MinGap, s.MaxGap))
	}
	for _, s := range res.Suggestions {
		line("suggest", "%s: %s  # %s", s.Key, s.Value, s.Why)
	}
	return b.String()
}

// season returns the season that the observations call for, and the reason. Both are empty if there is none.
func (s *sample) season(c *config.Config) (season, why string) {
	if c.Aggregate != nil && s.result.Places > 1 {
		return "", "" // the sampled places leave gaps between intervals
	}
	return seasontrial.Season(c, s.timed, s.span(), s.result.Step)
}

// read names the records that were read.
func (res *Result) read() string {
	switch {
	case res.Whole:
		return fmt.Sprintf("all %d records", res.Records)
	case res.Places > 1:
		return fmt.Sprintf("%d records at %d positions", res.Records, res.Places)
	}
	return fmt.Sprintf("the first %d records", res.Records)
}
