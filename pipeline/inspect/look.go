package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"hafvf/connectors"
	"hafvf/connectors/promio"
	"hafvf/hafvf"
	"hafvf/hafvf/usual"
	"hafvf/internal/message"
	"hafvf/internal/times"
	"hafvf/pipeline/config"
	"hafvf/pipeline/observe"
	"hafvf/pipeline/records"
)

// A Look reads the first records of a source. Of records that hold several observations, such as
// the lines of an export, it takes as many as hold lookObservations.
const (
	lookRows         = 1000
	lookObservations = 100_000
)

// ErrNotLookedAt says that a source cannot be looked at without using it up or connecting
// to it.
var ErrNotLookedAt = errors.New("topics and standard input are not looked at")

// A Look is what the first records of files show, read as a config says.
type Look struct {
	Path    string // or the query
	Queried bool   // the records are the last points of a query
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
	Tied        int           // observations with the time of the record before of their key
	Components  int           // numbers of the observations, missing ones too
	Missing     int
	Zero        int
	Negative    int
	Fractions   int // not whole
	Min, Max    float64
	Counters    []string // keys whose numbers rise and hardly ever fall
	Suggestions []Suggestion
}

// A Suggestion is a key of a config that the records call for.
type Suggestion struct {
	Key, Value string // as YAML
	Why        string
}

// LookAt reads the first records of the config's source, or the last points of its query. It
// returns ErrNotLookedAt for topics and standard input. Other errors are those of a run.
func LookAt(c *config.Config) (*Look, error) {
	switch {
	case c.Source.Prometheus() != nil:
		return lookAtQuery(c)
	case c.Source.Files() == nil:
		return nil, ErrNotLookedAt
	}
	file, fields := observe.Files(c)
	if file.Path == "-" {
		return nil, ErrNotLookedAt
	}
	p, err := observe.NewParser(fields)
	if err != nil {
		return nil, err
	}
	rd, err := connectors.Open(file)
	if err != nil {
		return nil, err
	}
	defer rd.Close()
	if err := observe.CheckTimes(file, p); err != nil {
		return nil, err
	}
	l := &Look{Path: file.Path, Columns: rd.Columns()}
	s := newSample(p, l)
	d := observe.NewDecoder(file.Format, p)
	for rows := 0; rows < lookRows && l.Records < lookObservations; rows++ {
		r, err := rd.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		d.File([]connectors.Record{r}, func(found []observe.Decoded) {
			for i := range found {
				s.add(r, &found[i])
			}
		})
	}
	s.finish(c, file.Format)
	if key, ok := s.missingKey(c, file, fields); ok {
		l.Suggestions = append([]Suggestion{key}, l.Suggestions...)
	}
	return l, nil
}

// lookAtQuery is LookAt for a query.
func lookAtQuery(c *config.Config) (*Look, error) {
	p, err := observe.NewParser(config.Fields{Zone: "UTC"})
	if err != nil {
		return nil, err
	}
	l := &Look{Path: c.Source.Prometheus().Query, Queried: true}
	s := newSample(p, l)
	all, err := promio.Last(context.Background(), c.Source.Prometheus().Source, lookObservations)
	if err != nil {
		return nil, err
	}
	observe.NewDecoder("", p).Series(all, func(found []observe.Decoded) {
		for i := range found {
			s.add(connectors.Record{}, &found[i])
		}
	})
	s.finish(c, "prometheus")
	return l, nil
}

func newSample(p *observe.Parser, l *Look) *sample {
	return &sample{parser: p, look: l, keys: map[string]bool{}, ends: map[string]time.Time{}, last: map[string]float64{}, words: map[string]int{}, numbers: map[string][]float64{}}
}

// finish says what all records together show.
func (s *sample) finish(c *config.Config, format string) {
	l := s.look
	l.Rejections = s.rejects.Commonest()
	for _, key := range l.Keys {
		var c climb
		for _, x := range s.numbers[key] {
			c.add(x)
		}
		if c.rises() {
			l.Counters = append(l.Counters, key)
		}
	}
	s.findFar(time.Now())
	if len(s.steps) > 0 {
		slices.Sort(s.steps)
		l.Step = s.steps[len(s.steps)/2]
	}
	l.Suggestions = s.suggestions(c, format)
}

// A sample is what a Look gathers on the way.
type sample struct {
	parser  *observe.Parser
	look    *Look
	keys    map[string]bool
	ends    map[string]time.Time // latest, by key
	last    map[string]float64   // number, by key
	squares float64              // sum of the squared differences of successive numbers of a key
	sum     float64              // of the later number of each
	numbers map[string][]float64 // of observations of one number, by key
	steps   []time.Duration
	times   []placed
	rejects records.Rejections

	read       []byte // the JSON object that texts has read last, of which there may be many observations
	readAt     string
	readValues []string

	commas  int            // numbers with a decimal comma
	words   map[string]int // texts in place of numbers
	badTime []string       // texts in place of times
	oddTime []string       // numbers that are times before 1973
	ahead   bool           // some of the far times are in the future
}

// placed is the time of an observation and where it stands.
type placed struct {
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
	sorted := slices.SortedFunc(slices.Values(s.times), func(a, b placed) int { return a.at.Compare(b.at) })
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
		if s.look.Far++; s.look.Far == 1 {
			s.look.FirstFar = t.place
		}
		s.ahead = s.ahead || t.at.After(now.Add(time.Hour))
	}
}

// add adds a record and what it became.
func (s *sample) add(r connectors.Record, d *observe.Decoded) {
	l := s.look
	l.Records++
	if l.Records == 1 && r.Reason == "" && len(l.Columns) == 0 {
		// A line that is no object has no fields.
		_ = observe.Leaves(r.Raw, func(path, _ string, _ bool) { l.Columns = append(l.Columns, path) })
	}
	if d.Err != nil {
		s.rejects.Add(d.Err.Error(), d.ID, d.Raw)
		at, values := s.texts(r)
		if _, err := s.parser.ParseTime(at); err != nil {
			s.badTime = append(s.badTime, at)
		}
		for _, v := range values {
			if _, err := s.parser.Number(v); err == nil {
				continue
			}
			if decimalComma.MatchString(v) {
				s.commas++
			} else {
				s.words[v]++
			}
		}
		return
	}
	l.Parsed++
	if !s.keys[d.Key] {
		s.keys[d.Key] = true
		l.Keys = append(l.Keys, d.Key)
	}
	if t := d.Time; !t.IsZero() {
		if l.Timed == 0 || t.Before(l.First) {
			l.First = t
		}
		if l.Timed == 0 || t.After(l.Last) {
			l.Last = t
		}
		l.Timed++
		s.times = append(s.times, placed{t, d.ID})
		if t.Year() < 1973 {
			at, _ := s.texts(r)
			s.oddTime = append(s.oddTime, at)
		}
		end, seen := s.ends[d.Key]
		if seen && t.Before(end) {
			l.Early++
			l.Behind = max(l.Behind, end.Sub(t))
		} else {
			if seen && t.Equal(end) {
				l.Tied++
			}
			if seen {
				s.steps = append(s.steps, t.Sub(end))
			}
			s.ends[d.Key] = t
		}
	}
	for _, x := range d.X {
		for _, v := range x {
			l.number(v)
		}
		if len(x) == 1 && !math.IsNaN(x[0]) {
			if last, seen := s.last[d.Key]; seen {
				s.squares += (x[0] - last) * (x[0] - last)
				s.sum += x[0]
			}
			s.last[d.Key] = x[0]
			s.numbers[d.Key] = append(s.numbers[d.Key], x[0])
		}
	}
}

// number adds a number.
func (l *Look) number(v float64) {
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

// texts returns the texts of a record's time and values, "" where they cannot be told.
func (s *sample) texts(r connectors.Record) (at string, values []string) {
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
	if err := observe.Leaves(r.Raw, func(path, text string, scalar bool) { leaves[path] = text }); err != nil {
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

var decimalComma = regexp.MustCompile(`^[-+]?[0-9]*,[0-9]+$`)

// missingWords are texts that stand for a missing value in most places.
var missingWords = []string{"na", "n/a", "#n/a", "null", "none", "nil", "-", "--", "?", ".", "missing"}

// commonFormats are forms of times that need a time_format, by their usual frequency.
var commonFormats = func() (all []string) {
	for _, date := range []string{"%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%m-%Y", "%Y/%m/%d", "%d/%m/%y", "%m/%d/%y", "%d.%m.%y", "%d %b %Y", "%b %d, %Y", "%d-%b-%Y"} {
		for _, clock := range []string{"", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p"} {
			all = append(all, date+clock)
		}
	}
	return append(all, "%Y%m%d%H%M", "%Y%m%d%H%M%S")
}()

// formatsOf returns the common formats that all texts have. Whole numbers have only
// compact ones.
func formatsOf(texts []string) (fitting []string) {
	for _, format := range commonFormats {
		p, err := times.NewParser("", format)
		if err != nil {
			panic("inspect: " + err.Error())
		}
		if len(texts) > 0 && !slices.ContainsFunc(texts, func(s string) bool { return !p.Fits(s) }) {
			fitting = append(fitting, format)
		}
	}
	return fitting
}

// suggestions says what the config might say besides.
func (s *sample) suggestions(c *config.Config, format string) (all []Suggestion) {
	l := s.look
	add := func(key, value, why string) { all = append(all, Suggestion{key, value, why}) }
	source := "source." + format + "."
	if s.commas > 0 && connectors.FormatOf(format).Delimited && s.parser.Decimal == '.' {
		add(source+"decimal", `","`, fmt.Sprintf("%d numbers have a comma", s.commas))
	}
	var words []string
	for w, n := range s.words {
		if n > 1 || slices.Contains(missingWords, strings.ToLower(w)) {
			words = append(words, w)
		}
	}
	if len(words) > 0 {
		slices.SortFunc(words, func(a, b string) int { return cmp.Or(cmp.Compare(s.words[b], s.words[a]), cmp.Compare(a, b)) })
		add(source+"missing", yamlList(slices.Concat(s.parser.Missing, words[:min(len(words), 5)])), "if these texts stand for missing values")
	}
	odd := s.badTime
	if len(odd) == 0 {
		odd = s.oddTime
	}
	if format := formatsOf(odd); len(format) > 0 {
		add(source+"time_format", yamlText(format[0]), alternatives(format))
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
	if c.Transform == config.Filter && c.Order == config.EventTime && l.Behind > waits && l.Far == 0 {
		add(setting, message.Duration(message.RoundUp(l.Behind)), l.behind())
	}
	family := s.family()
	if family != "normal" && c.Model.Family == "normal" {
		add("model.family", family, familyReasons[family])
	}
	if scale := s.scale(); scale != "" && c.Model.Family == "normal" && family == "normal" && c.Model.Scale == hafvf.Linear {
		add("model.scale", string(scale), "the values scatter by factors: their upper tail is the long one")
	}
	if d := c.Detect; d != nil && l.Step > 0 && d.BudgetOf(l.Step) < leastBudget {
		budget := leastBudget * l.Step
		add("detect", fmt.Sprintf("{budget: %s}", message.Duration(message.RoundUp(budget))),
			fmt.Sprintf("about one alarm in %d records of a key, at most ten in the first %d; now one in %.0f", leastBudget, leastBudget, d.BudgetOf(l.Step)))
	}
	if c.Detect != nil && l.rare() && reflect.DeepEqual(c.Bank, hafvf.DefaultBankOf(c.Model.Family)) {
		add("bank", "[{levels: [], top: 0.9998}]", "one of the values is rare: the default bank follows single ones")
	}
	if c.Transform == config.Filter && c.Model.Season == nil && usual.Seasonal(c.Model.Family) == nil {
		if season, note := l.rhythm(); season != "" {
			add("model.season", season, note)
		}
	}
	return all
}

var familyReasons = map[string]string{
	"bernoulli": "the values are 0 and 1",
	"poisson":   "if the values are counts; they are whole and not negative",
}

// rare reports whether the values are zeros and ones, and less than a tenth are of one
// kind.
func (l *Look) rare() bool {
	n := l.Components - l.Missing
	fewer := min(l.Zero, n-l.Zero)
	return n > 0 && l.Fractions == 0 && l.Min == 0 && l.Max == 1 && 10*fewer < n
}

// leastBudget is the number of observations per alarm below which a budget is spent on
// chance.
const leastBudget = 100

// family returns that which the values seem to have. Poisson counts that follow each other
// differ by twice their mean, squared and on average; totals and amounts differ by more.
func (s *sample) family() string {
	const few = 20
	l := s.look
	n := l.Components - l.Missing
	switch {
	case n == 0 || l.Fractions > 0 || l.Negative > 0:
		return "normal"
	case n < few && l.Max <= 1:
		return "normal" // shares and rates may be 0 and 1 at first
	case l.Min == 0 && l.Max == 1:
		return "bernoulli"
	case s.squares > 6*s.sum:
		return "normal"
	}
	return "poisson"
}

// scale returns that on which the values of most keys are about symmetric, if they are far from
// it as they are; else it is empty. By the quartile skewness of Bowley, with quantiles that leave
// three numbers of a key above, within .01 and .05: 0 of symmetric values, .58 and more of
// exponential ones, .43 of a lognormal with σ = .4 from 300 numbers on.
func (s *sample) scale() hafvf.Scale {
	const (
		few    = 30 // numbers of a key
		above  = 3
		skewed = .4
	)
	if s.look.Negative > 0 {
		return ""
	}
	scale := hafvf.Log
	if s.look.Zero > 0 {
		scale = hafvf.Log1p
	}
	keys, votes := 0, 0
	for _, x := range s.numbers {
		if len(x) < few {
			continue
		}
		keys++
		tail := min(max(.01, above/float64(len(x))), .05)
		plain := skewness(x, tail)
		for i, v := range x {
			x[i] = scale.Of(v)
		}
		if scaled := skewness(x, tail); plain > skewed && math.Abs(scaled) < plain/2 {
			votes++
		}
	}
	if 2*votes > keys {
		return scale
	}
	return ""
}

// skewness sorts x. It compares the quantiles tail and 1 − tail with the median.
func skewness(x []float64, tail float64) float64 {
	slices.Sort(x)
	at := func(p float64) float64 { return x[int(p*float64(len(x)-1))] }
	low, middle, high := at(tail), at(.5), at(1-tail)
	if !(high > low) {
		return 0
	}
	return (high + low - 2*middle) / (high - low)
}

// behind says that records come late.
func (l *Look) behind() string {
	return fmt.Sprintf("%s up to %v after a later one of the key", message.Count(l.Early, "record comes", "records come"), l.Behind)
}

// rhythm returns the season that observations of a key at this step may have, and what
// that depends on; both are empty if they are too far apart for any.
func (l *Look) rhythm() (season, note string) {
	switch {
	case l.Step <= 0 || l.Step > 42*time.Hour:
		return "", ""
	case l.Step > 6*time.Hour:
		return "[168h]", "if the values have a rhythm of the week"
	}
	return "[24h, 168h]", "if the values have a rhythm of day and week"
}

func alternatives(formats []string) string {
	if len(formats) == 1 {
		return "the times have this form"
	}
	return "or " + yamlText(formats[1]) + ", which fits the times as well"
}

// String is the look as a person reads it.
func (l *Look) String() string {
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
		line("data", "%s, the first %d records", l.Path, l.Records)
	}
	if len(l.Columns) > 0 {
		line("columns", "%s", some(l.Columns, 20))
	}
	if l.Parsed > 0 {
		line("keys", "%d: %s", len(l.Keys), some(l.Keys, 8))
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
		text := fmt.Sprintf("%s of the records parse", percent(l.Parsed, l.Records))
		if n := l.Components - l.Missing; n > 0 {
			text += fmt.Sprintf(", %s are missing; %g to %g, %s zero, %s negative", percent(l.Missing, l.Components), l.Min, l.Max, percent(l.Zero, n), percent(l.Negative, n))
		}
		line("values", "%s", text)
	}
	if len(l.Counters) > 0 {
		how := "give its increases"
		if l.Queried {
			how = "ask for its rate(…[5m])"
		}
		line("counters", "the values of %s rise and do not fall, as those of a counter: %s; %s", message.Count(len(l.Counters), "key", "keys"), how, some(l.Counters, 4))
	}
	for _, r := range l.Rejections {
		line("rejected", "%d × %s", r.Count, r.Reason)
		line("", "%s: %s", r.Place, message.Printable(r.Raw))
	}
	for _, s := range l.Suggestions {
		line("suggest", "%s: %s  # %s", s.Key, s.Value, s.Why)
	}
	return b.String()
}

// percent is n of all, rounded so that only none is 0 % and only all is 100 %.
func percent(n, all int) string {
	if all == 0 {
		return "0 %"
	}
	p := 100 * float64(n) / float64(all)
	switch {
	case n > 0 && p < .1:
		return "< 0.1 %"
	case n < all && p > 99.9:
		return "> 99.9 %"
	case p == math.Trunc(p):
		return fmt.Sprintf("%g %%", p)
	}
	return fmt.Sprintf("%.1f %%", p)
}

// some lists the first names.
func some(names []string, most int) string {
	var all []string
	for _, n := range names[:min(len(names), most)] {
		all = append(all, message.Printable(n))
	}
	if len(names) > most {
		all = append(all, "…")
	}
	return strings.Join(all, ", ")
}
