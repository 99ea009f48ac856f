package settings

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/usual"
	"hafvf/internal/domain"
	"hafvf/internal/inputfile"
	"hafvf/internal/message"
	"hafvf/pipeline/settings/keytable"
)

// Keys declares the settings: the name of each key, its documentation, and how its value is read.
func (d *Reading) Keys() []keytable.Key {
	c := d.c
	return []keytable.Key{
		{Name: "transform", Doc: "filter writes one estimate per observation, at once. smooth writes one per observation, at the end of its session.",
			Read: keytable.Choice(&c.Transform, Filter, Smooth)},
		{Name: "model", Doc: "Assumptions about the values.", Keys: []keytable.Key{
			{Name: "family", Doc: "Family of distributions.", Initial: keytable.Required, Read: keytable.Choice(&c.Model.Family, expfam.Families()...)},
			{Name: "prior", Doc: "Textbook parameters. An absent parameter has the family's default (go doc ./hafvf). auto sets the parameters from a key's first observations, for smooth from the session. {auto: true, order: 3} is auto with an order.",
				Read: keytable.Later("mapping of parameters, or auto", &d.priorNode)},
			{Name: "warm_up", Doc: "Number of first observations from which prior: auto sets the prior.", Unit: "observations", Initial: fmt.Sprint(keyed.DefaultWarmUp), Read: keytable.Whole(&d.warmUp, 2)},
			{Name: "dim", Doc: "Length of an observation, if neither prior nor columns determine it. For regression it includes the target; for categorical it is the number of categories.",
				Read: keytable.Whole(&c.Model.Dim, 1)},
			{Name: "scale", Doc: "The filter learns values on this scale; for normal, mvnormal, regression (the target) and ar. Results are on the data's scale: mean is the median, and sd uses the delta method. A change needs --migrate.",
				Read: keytable.Choice((*string)(&c.Model.Scale), hafvf.Scales()...)},
			{Name: "season", Doc: "Cycles of the values. The filter learns the values minus the season; for exponential and poisson, the season is a factor. Not for bernoulli, categorical, or smooth with levels. A change needs --migrate.",
				Read: seasons(&d.season.seasons)},
			{Name: "zone", Doc: "Time zone of the season and its holidays. The season follows the local time, including summer time.", Read: keytable.Zone(&d.season.zone)},
			{Name: "holidays", Doc: "Local dates that the season does not learn.", Read: dates(&d.season.holidays)},
		}},
		c.aggregateKey(&d.aggregateInput),
		{Name: "levels", Doc: "Beta priors of the forgetting weights, bottom up: w, b, …. An empty list means no level. By default, smooth finds segments, and bernoulli and categorical have a bank.",
			Initial: formatLevels(hafvf.DefaultMember().Levels), Read: levels(&c.Levels)},
		{Name: "top", Doc: "Fixed weight of the topmost level. 1 never forgets.", Read: keytable.Number(&c.Top, domain.Top)},
		{Name: "bank", Doc: "Several filters instead of levels and top, by Bayesian model averaging. detect without levels has a default bank. Without bank, levels and detect, bernoulli and categorical have " + formatMembers(hafvf.Config{Family: "bernoulli"}.Members()) + ".",
			Read: members(&c.Bank)},
		{Name: "bank_forgetting", Doc: "Forgetting of the members' posterior weights, per observation.", Read: keytable.Number(&c.BankForgetting, domain.Forgetting)},
		{Name: "detect", Doc: "true separates outliers from changes and raises alarms within a budget.", Initial: "false", Read: detect(&c.Detect)},
		{Name: "silence", Doc: "true raises silent if a key has no record for longer than its rhythm allows, and recovered at its next record. In a file, silent is raised at the key's next record, or at the end of the file. See GUIDE.", Initial: "false", Read: silence(&c.Silence)},
		{Name: "keys", Doc: "Exceptions for some keys, at most 10,000. For each field, the first matching exception that sets it wins. levels, top and bank are one field.", Read: d.keyRules(&c.Keys)},
		{Name: "quiet", Doc: "Times in which some keys neither learn nor raise alarms. Their records have quiet: true. Overlapping times count once. The clock of a silence stops. See GUIDE.", Read: quietTimes(&d.quiet)},
		{Name: "order", Doc: "Order in which a key's records are learned: by their times, or as they arrive.", Read: keytable.Choice(&c.Order, EventTime, Arrival)},
		{Name: "expire", Doc: "A key without a record for this duration, by the times of records, is forgotten. Its next record has n = 1. By default 2160h for an endless topic or query with order: event_time, else never. It must exceed lateness and aggregate.every.", Read: keytable.DurationOr("never", &c.Expire)},
		{Name: "lateness", Doc: "How long a record waits for earlier records of its key. At most 100,000 records of a key wait; further records are rejected. The end of a file releases the waiting records; the next run with state rejects records before them.", Read: keytable.Duration(&c.Lateness)},
		{Name: "time_unit", Doc: "Unit of time after which the weight of memory applies once. By default it applies once per observation.", Read: keytable.Milliseconds(&c.TimeUnit)},
		{Name: "session", Doc: "smooth: records that are smoothed together.", Keys: []keytable.Key{
			{Name: "gap", Doc: "Time without an observation of the key that ends a session. By default 30 times the median step of the key, and at least 30m; for an endless topic, and with allowed_lateness, 30m.", Read: keytable.Milliseconds(&c.Session.Gap)},
			{Name: "allowed_lateness", Doc: "How long after its end late records still revise a session. On a topic, the times of their partition decide.", Read: keytable.Duration(&c.Session.AllowedLateness)},
			{Name: "max", Doc: "A longer session is cut into parts.", Unit: "observations", Read: keytable.Whole(&c.Session.Max, 1)},
			{Name: "by", Doc: "With order: arrival or time_format: trial, a session is a key together with the values of these columns or fields. By default it is a key.", Read: keytable.OneOrMore("columns or fields", &c.Session.By)},
		}},
		{Name: "change", Doc: "smooth: changes that are reported.", Keys: []keytable.Key{
			{Name: "odds", Doc: "Odds that a change must exceed: by default 10, or 4 for families without a scale.", Read: keytable.Number(&c.Odds, domain.Odds)},
			{Name: "walk", Doc: "normal, in sessions of up to 1,500 values: false means that the task has levels by design, under white or correlated noise, and that a walk or a line is no explanation.", Read: keytable.Boolean(&c.Walk)},
		}},
		{Name: "records", Doc: "brief omits the fields that are marked full in the list of records.", Read: keytable.Choice(&c.Records, Brief, Full)},
		{Name: "interval", Doc: "filter: adds lower and upper, the central predictive interval of this probability.", Read: keytable.Number(&c.Interval, domain.Interval)},
	}
}

func levels(dst *[]hafvf.Beta) keytable.ValueParser {
	return keytable.MaxEntries(maxLevels, "levels", keytable.List("{alpha, beta}", dst, func(l *hafvf.Beta) []keytable.Key {
		return []keytable.Key{
			{Name: "alpha", Doc: "First parameter of the prior. A larger value keeps more.", Required: true, Read: keytable.Number(&l.Alpha, domain.Level)},
			{Name: "beta", Doc: "Second parameter of the prior. A larger value forgets more.", Required: true, Read: keytable.Number(&l.Beta, domain.Level)},
		}
	}))
}

// formatLevels writes levels as YAML.
func formatLevels(levels []hafvf.Beta) string {
	var texts []string
	for _, l := range levels {
		texts = append(texts, fmt.Sprintf("{alpha: %g, beta: %g}", l.Alpha, l.Beta))
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

// formatMembers writes the filters of a bank as YAML.
func formatMembers(bank []hafvf.Member) string {
	var texts []string
	for _, m := range bank {
		texts = append(texts, fmt.Sprintf("{levels: %s, top: %g}", formatLevels(m.Levels), m.Top))
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

// members reads the filters of a bank. It requires at least one.
func members(dst *[]hafvf.Member) keytable.ValueParser {
	r := keytable.MaxEntries(maxMembers, "filters", keytable.List("{levels, top} or {ar, top}", dst, func(m *hafvf.Member) []keytable.Key {
		return []keytable.Key{
			{Name: "levels", Doc: "Beta priors of this member's weights. Required without ar; with ar, none by default.", Read: levels(&m.Levels)},
			{Name: "top", Doc: "Fixed weight of this member's topmost level.", Required: true, Read: keytable.Number(&m.Top, domain.Top)},
			{Name: "ar", Doc: "normal: the member predicts a value from this number of previous values. The first member has no ar.", Read: keytable.UpTo(&m.AR, expfam.MaxAR)},
		}
	}))
	read := r.Read
	r.Read = func(d *keytable.Decoder, path string, n *yaml.Node) {
		read(d, path, n)
		if n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
			d.Fail(path, "must hold at least one filter {levels, top}")
		}
		for i := range *dst {
			entry := fmt.Sprintf("%s.%d", path, i)
			m := &(*dst)[i]
			switch {
			case d.Failed(entry):
			case d.Has(entry + ".levels"):
			case d.Has(entry + ".ar"):
				m.Levels = []hafvf.Beta{}
			default:
				d.Fail(entry+".levels", "missing; it is required")
			}
		}
	}
	return r
}

// keyRules reads exceptions.
func (d *Reading) keyRules(dst *[]KeyRule) keytable.ValueParser {
	return keytable.List("{match, …}", dst, func(k *KeyRule) []keytable.Key {
		k.Top = 1
		prior, season := new(*yaml.Node), new(seasonKeys)
		d.keyPriors[k], d.keySeasons[k] = prior, season
		return []keytable.Key{
			{Name: "match", Doc: "Keys to which the exception applies. Labels match keys that are series; a label that a series lacks is empty.", Required: true, Read: Pattern(&k.Match)},
			{Name: "model", Doc: "Assumptions about the values of these keys.", Keys: []keytable.Key{
				{Name: "prior", Doc: "As model.prior, which is the default.", Read: keytable.Later("mapping of parameters, or auto", prior)},
				{Name: "season", Doc: "As model.season. [] is none.", Initial: "that of the model", Read: seasons(&season.seasons)},
				{Name: "zone", Doc: "As model.zone.", Initial: "that of the model", Read: keytable.Zone(&season.zone)},
				{Name: "holidays", Doc: "As model.holidays.", Initial: "those of the model", Read: dates(&season.holidays)},
			}},
			{Name: "levels", Doc: "As levels, which are the default.", Read: levels(&k.Levels)},
			{Name: "top", Doc: "As top. Without levels, it is combined with the levels of the config.", Initial: "that of the config", Read: keytable.Number(&k.Top, domain.Top)},
			{Name: "bank", Doc: "As bank, which is the default.", Read: members(&k.Bank)},
			{Name: "detect", Doc: "false raises no alarm, and keeps the filter and its records. A mapping sets fields of detect.", Initial: "that of the config", Read: keyDetect(&k.Detect)},
			{Name: "silence", Doc: "false reports no silence of these keys. {after: 25h} is a fixed bound. true uses their rhythm. It needs silence at the top level.", Initial: "that of the config", Read: keySilence(&k.Detect.Silence)},
			{Name: "alerts", Doc: "With false, alarms and silences of the keys are computed, recorded and counted, but reach no receiver and join no incident.", Initial: "true", Read: optional(&k.Alerts, keytable.Boolean)},
		}
	})
}

// optional reads a value. *dst stays nil if the key is absent.
func optional[T any](dst **T, parser func(*T) keytable.ValueParser) keytable.ValueParser {
	v := new(T)
	return parser(v).Sets(func() { *dst = v })
}

// keySilence reads true, false, or {after}.
func keySilence(dst **keyed.SilenceConfig) keytable.ValueParser {
	return silence(dst).Sets(func() { *dst = cmp.Or(*dst, &keyed.SilenceConfig{Disabled: true}) })
}

// keyDetect reads the detection of an exception: false, or fields of detect.
func keyDetect(dst *keyed.AlertRule) keytable.ValueParser {
	const takes = "false, or a mapping"
	minChange := func(v *float64) keytable.ValueParser { return keytable.Number(v, domain.MinChange) }
	initial := "that of detect"
	var alarms keyed.AlarmConfig
	keys := []keytable.Key{
		{Name: "cooldown", Doc: "As detect.cooldown.", Initial: initial, Read: optional(&dst.Cooldown, keytable.Duration)},
		{Name: "min_change", Doc: "As detect.min_change.", Initial: initial, Read: optional(&dst.MinChange, minChange)},
		{Name: "min_abs", Doc: "As detect.min_abs.", Initial: initial, Read: optional(&dst.MinAbs, minChange)},
		{Name: "min_rel", Doc: "As detect.min_rel.", Initial: initial, Read: optional(&dst.MinRel, minChange)},
		{Name: "direction", Doc: "As detect.direction.", Initial: initial, Read: optional(&dst.Direction, func(v *keyed.Direction) keytable.ValueParser {
			return keytable.Choice((*string)(v), string(keyed.Both), string(keyed.Up), string(keyed.Down))
		})},
		{Name: "budget", Doc: "As detect.budget.", Initial: initial, Read: budget(&alarms).Sets(func() {
			dst.Budget, dst.BudgetTime = new(alarms.Budget), new(alarms.BudgetTime)
		})},
		{Name: "rest", Doc: "As detect.rest.", Initial: initial, Read: rest(&alarms).Sets(func() {
			dst.Rest, dst.RestTime = new(alarms.Rest), new(alarms.RestTime)
		})},
		{Name: "settling", Doc: "As detect.settling.", Initial: initial, Read: optional(&dst.Settling, keytable.Duration)},
		{Name: "season", Doc: "As detect.season. After a change of season or zone, these keys relearn their usual values.", Initial: initial, Read: optional(&dst.Seasons, seasons)},
		{Name: "zone", Doc: "As detect.zone.", Initial: initial, Read: optional(&dst.Zone, keytable.Zone)},
	}
	return keytable.ValueParser{Takes: takes, Keys: keys, Read: func(d *keytable.Decoder, path string, n *yaml.Node) {
		enabled := true
		switch {
		case n.Kind == yaml.MappingNode:
			d.Mapping(path, n, keys)
		case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!bool" && n.Decode(&enabled) == nil && !enabled:
			dst.Disabled = new(true)
			return
		default:
			d.WrongType(path, takes, n)
			return
		}
		dst.Disabled = new(false)
	}}
}

// detect reads true, false, or settings.
func detect(dst **Detect) keytable.ValueParser {
	return keytable.OrSwitch(dst, "a mapping", defaultDetect, func(v *Detect) []keytable.Key {
		return []keytable.Key{
			{Name: "commit", Doc: "Posterior probability from which a change counts as certain.", Read: keytable.Number(&v.Commit, domain.Commit)},
			{Name: "min_length", Doc: "Minimum length of a new regime.", Unit: "observations", Read: keytable.Whole(&v.MinLength, 1)},
			{Name: "cooldown", Doc: "A key raises no second alarm within this time.", Read: keytable.Duration(&v.Cooldown)},
			{Name: "min_change", Doc: "A smaller change or deviation raises no alarm.", Unit: "standard deviations", Read: keytable.Number(&v.MinChange, domain.MinChange)},
			{Name: "min_abs", Doc: "As min_change, in the values' own units.", Read: keytable.Number(&v.MinAbs, domain.MinChange)},
			{Name: "min_rel", Doc: "As min_change, relative to the previous usual value: 0.1 is ten percent.", Read: keytable.Number(&v.MinRel, domain.MinChange)},
			{Name: "direction", Doc: "up raises alarms only for rises, down only for falls.", Read: keytable.Choice((*string)(&v.Direction), string(keyed.Both), string(keyed.Up), string(keyed.Down))},
			{Name: "budget", Doc: "A key raises at most about one alarm per budget, true and false alarms together. Without times, the default is 2000 observations.", Read: budget(&v.AlarmConfig)},
			{Name: "rest", Doc: "Half of it is the longest calm that ends an episode: that many values without a deviation always end it. A longer rest joins more deviations to one episode; they count as resting. The median step of the records converts a duration to observations.", Read: rest(&v.AlarmConfig)},
			{Name: "settling", Doc: "Time at the start of a key in which its threshold is higher. 0 turns it off.", Read: keytable.Duration(&v.Settling)},
			{Name: "season", Doc: "Cycles of the usual value, for keys with times. They also set the hours of the plan: hours of the week with 168h, else hours of the day. [] turns both off. After a change of season, zone or ar, each key relearns its usual values.", Read: seasons(&v.Seasons)},
			{Name: "zone", Doc: "Zone of the season, and of times in messages. The default is model.zone if there is a model.season, else the zone of the source.", Read: keytable.Zone(&v.Zone)},
			{Name: "holidays", Doc: "Dates that are treated and learned as another day of the week, by default Sunday: in usual values, in silences and in a model.season. New dates need no --migrate.", Read: holidays(&v.Holidays)},
			{Name: "monthly", Doc: "Days of the month on which the values differ from other days. The first such day of a key may raise an alarm; later ones are compared with the days before. New days need no --migrate.", Read: monthly(&v.Monthly)},
			{Name: "ar", Doc: "Number of previous values on which the usual value depends. 0 turns it off.", Unit: "observations", Read: keytable.UpTo(&v.Order, usual.MaxOrder)},
		}
	})
}

// silence reads true, false, or {after}.
func silence(dst **keyed.SilenceConfig) keytable.ValueParser {
	fresh := func() *keyed.SilenceConfig { return &keyed.SilenceConfig{} }
	return keytable.OrSwitch(dst, "{after: 15m}", fresh, func(v *keyed.SilenceConfig) []keytable.Key {
		return []keytable.Key{{Name: "after", Doc: "A fixed bound instead of the key's rhythm.", Read: keytable.Milliseconds(&v.After)}}
	})
}

// Bounds on the cost of an observation. The cost of a season grows as the cube of the number of harmonics, and a run
// that is asked to stop must finish its observation.
const (
	maxHarmonics      = 48 // maximum per season
	maxTotalHarmonics = 4 * maxHarmonics
	maxSeasons        = 16
	maxLevels         = 64
	maxMembers        = 64
)

// budget reads a duration, or a number of observations.
func budget(dst *keyed.AlarmConfig) keytable.ValueParser {
	r := timeOrNumber("168h", func(d *keytable.Decoder, path string, n *yaml.Node) { d.Number(path, n, domain.Budget, &dst.Budget) },
		func(d *keytable.Decoder, path string, n *yaml.Node, v time.Duration) {
			if v <= 0 {
				d.Fail(path, "must be above 0, not %s", n.Value)
				return
			}
			dst.BudgetTime = v
		})
	r.Initial = message.Duration(dst.BudgetTime)
	return r
}

// rest reads a duration, or a number of observations.
func rest(dst *keyed.AlarmConfig) keytable.ValueParser {
	r := timeOrNumber("7h", func(d *keytable.Decoder, path string, n *yaml.Node) { d.Whole(path, n, 0, &dst.Rest) },
		func(d *keytable.Decoder, path string, n *yaml.Node, v time.Duration) {
			switch {
			case v < 0:
				d.Fail(path, "must be at least 0, not %s", n.Value)
			case v == 0:
				dst.Rest = 0
			default:
				dst.RestTime = v
			}
		})
	r.Initial = "7h within 6 to 60 observations"
	return r
}

// timeOrNumber reads a duration, or a number of observations.
func timeOrNumber(example string, number func(*keytable.Decoder, string, *yaml.Node), duration func(*keytable.Decoder, string, *yaml.Node, time.Duration)) keytable.ValueParser {
	takes := "a duration such as " + example + ", or a number of observations"
	return keytable.ValueParser{Takes: takes, Read: func(d *keytable.Decoder, path string, n *yaml.Node) {
		if _, ok := keytable.NumberOf(n); ok {
			number(d, path, n)
			return
		}
		v, err := keytable.DurationOf(n)
		if err != nil {
			d.WrongType(path, takes, n)
			return
		}
		duration(d, path, n, v)
	}}
}

// seasons reads a list of periods, or a mapping of periods to harmonics.
func seasons(dst *[]usual.Season) keytable.ValueParser {
	const takes = "a list of durations, or a mapping of durations to harmonics"
	var initial []string
	for _, s := range *dst {
		initial = append(initial, fmt.Sprintf("%s: %d", message.Duration(s.Period), s.Harmonics))
	}
	text := "[]"
	if len(initial) > 0 {
		text = "{" + strings.Join(initial, ", ") + "}"
	}
	return keytable.MaxEntries(maxSeasons, "cycles", keytable.ValueParser{Takes: takes, Initial: text, Read: func(d *keytable.Decoder, path string, n *yaml.Node) {
		read := []usual.Season{}
		add := func(p string, period, harmonics *yaml.Node) {
			s := usual.Season{Harmonics: 3}
			var err error
			s.Period, err = keytable.DurationOf(period)
			switch {
			case err != nil:
				d.WrongType(p, "a duration such as 24h", period)
				return
			case s.Period <= 0:
				d.Fail(p, "must be above 0, not %s", period.Value)
				return
			case slices.ContainsFunc(read, func(other usual.Season) bool { return other.Period == s.Period }):
				d.Fail(p, "duplicate period")
				return
			}
			for _, standard := range usual.DefaultSeasons() {
				if standard.Period == s.Period {
					s.Harmonics = standard.Harmonics
				}
			}
			if harmonics != nil {
				if !d.Whole(p, harmonics, 1, &s.Harmonics) {
					return
				}
				if s.Harmonics > maxHarmonics {
					d.Fail(p, "must be at most %d harmonics, not %d", maxHarmonics, s.Harmonics)
					return
				}
			}
			read = append(read, s)
		}
		switch n.Kind {
		case yaml.SequenceNode:
			for i, e := range n.Content {
				add(d.Entry(path, i, e), e, nil)
			}
		case yaml.MappingNode:
			d.Entries(path, n, func(p string, k, v *yaml.Node) { add(p, k, v) })
		default:
			d.WrongType(path, takes, n)
			return
		}
		sum := 0
		for _, s := range read {
			sum += s.Harmonics
		}
		if sum > maxTotalHarmonics {
			d.Fail(path, "has %d harmonics in all; at most %d are allowed", sum, maxTotalHarmonics)
		}
		*dst = read
	}})
}

// dates reads a list of dates.
func dates(dst *[]string) keytable.ValueParser {
	r := keytable.ListOf("dates, such as 2026-12-25", dst, func(s *string) keytable.ValueParser {
		return keytable.Text(s, keytable.MayBeEmpty).WithCheck(func() error {
			_, err := domain.Date(*s)
			return err
		})
	})
	r.Initial = "[]"
	return r
}

// Pattern reads a pattern of keys, or a mapping of labels to patterns.
func Pattern(dst *string) keytable.ValueParser {
	r := keytable.Checked(dst, "pattern: "+domain.Wildcards+"; or labels with patterns, such as {job: auth-*}", domain.CheckPattern)
	read := r.Read
	r.Read = func(d *keytable.Decoder, path string, n *yaml.Node) {
		if n.Kind != yaml.MappingNode {
			read(d, path, n)
			return
		}
		labels := map[string]string{}
		d.Entries(path, n, func(p string, k, v *yaml.Node) {
			var pattern string
			keytable.Checked(&pattern, "pattern: "+domain.Wildcards, domain.CheckPattern).Read(d, p, v)
			labels[k.Value] = pattern
		})
		if len(labels) == 0 && !d.Failed(path) {
			d.Fail(path, "has no label")
		}
		*dst = domain.LabelPattern(labels)
	}
	return r
}

var weekdays = []string{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"}

// holidays reads dates, or a mapping with the dates and the weekday that they resemble.
func holidays(dst *usual.Holidays) keytable.ValueParser {
	var listed, filed []string
	file, like := "", weekdays[dst.Like]
	keys := []keytable.Key{
		{Name: "dates", Doc: "Local dates.", Read: dates(&listed)},
		{Name: "file", Doc: "File with one date per line, at most 4 MB. A # starts a comment. The file is read at the start; a pipe within 10 s.", Read: keytable.Text(&file, keytable.NotEmpty).WithCheck(func() (err error) {
			filed, err = readDates(file)
			return err
		})},
		{Name: "like", Doc: "Day of the week as which the dates are treated.", Read: keytable.Choice(&like, weekdays...)},
	}
	const takes = "list of dates, or {dates: […], file: …, like: Sun}"
	return keytable.ValueParser{Takes: takes, Initial: "[]", Keys: keys, Read: func(d *keytable.Decoder, path string, n *yaml.Node) {
		switch n.Kind {
		case yaml.SequenceNode:
			keys[0].Read.Read(d, path, n)
		case yaml.MappingNode:
			d.Mapping(path, n, keys)
		default:
			d.WrongType(path, "a "+takes, n)
			return
		}
		*dst = usual.Holidays{Dates: append(listed, filed...), Like: time.Weekday(slices.Index(weekdays, like))}
	}}
}

// monthly reads a list of days of the month.
func monthly(dst *[]usual.MonthDay) keytable.ValueParser {
	var days, names []string
	for _, day := range usual.MonthDays() {
		names = append(names, string(day))
	}
	return keytable.Choices(&days, names...).WithCheck(func() error {
		*dst = nil
		for i, day := range days {
			if slices.Contains(days[:i], day) {
				return fmt.Errorf("has %s twice", day)
			}
			*dst = append(*dst, usual.MonthDay(day))
		}
		return nil
	})
}

const maxHolidayBytes = 4 * inputfile.MB

// readDates reads a file of dates. An error names the line.
func readDates(path string) (lines []string, err error) {
	b, _, err := inputfile.ReadText(path, maxHolidayBytes)
	if err != nil {
		return nil, err
	}
	for i, line := range strings.Split(string(b), "\n") {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if _, err := domain.Date(line); err != nil {
			return nil, fmt.Errorf("%s:%d: %v", message.Printable(path), i+1, err)
		}
		lines = append(lines, line)
	}
	return lines, nil
}

// HolidayRemarks returns remarks on holidays that have no effect on alarms.
func (c *Settings) HolidayRemarks() (remarks []string) {
	if c.Detect == nil {
		return nil
	}
	named := c.Detect.Holidays.Dates
	onlyInModel := func(s *usual.RhythmConfig) bool {
		return s != nil && slices.ContainsFunc(s.Holidays, func(date string) bool { return !slices.Contains(named, date) })
	}
	if onlyInModel(c.Model.Season) || slices.ContainsFunc(c.Keys, func(k KeyRule) bool { return onlyInModel(k.Season) }) {
		remarks = append(remarks, "alarms do not use model.holidays, which only the season of the model skips: set detect.holidays for alarms")
	}
	week := func(s usual.Season) bool { return s.Period == 7*24*time.Hour }
	if len(named) > 0 && !slices.ContainsFunc(c.Detect.Seasons, week) {
		remarks = append(remarks, "detect.holidays have no effect on what is usual: detect.season has no 168h")
	}
	return remarks
}
