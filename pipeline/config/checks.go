package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"hafvf/connectors"
	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/hafvf/incidents"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/usual"
	"hafvf/internal/message"
)

// check holds what concerns more than one key.
func (d *decoder) check(c *Config) {
	if c.Model.Family == "" && !d.has("model.family") && !d.failed("model") && !d.failed("") {
		d.fail("model.family", "missing; one of %s is required", strings.Join(expfam.Families(), ", "))
	}
	if err := hafvf.Scalable(c.Model.Family); err != nil && c.Model.Scale != hafvf.Linear && c.Model.Family != "" {
		d.fail("model.scale", "%v", err)
	}
	d.checkTransform(c)
	d.checkExpire(c)
	if c.Order == EventTime {
		reason := "an empty name means that there is no time, which needs order: arrival"
		if c.Transform == Smooth {
			reason = "an empty name means that there is no time, and sessions without times need order: arrival"
		}
		d.needTime(c, reason)
	}
	d.checkNumbers(c)
	d.checkFiles(c)
	for _, o := range c.Source.Origins {
		o.check(d, c)
	}
	d.checkKafka(c)
	d.checkWritten(c)
	d.checkRunner(c)
	d.checkMarks(c)
}

// filters settles which filters there are, of the config's and of every rule.
func (d *decoder) filters(c *Config, nodes *priorNodes) {
	one := func(path string, levels *[]hafvf.Beta, top *float64, bank *[]hafvf.Member, inherit bool) {
		at := func(name string) string { return join(path, name) }
		hasLevels, hasTop, hasBank := d.has(at("levels")), d.has(at("top")), d.has(at("bank"))
		switch {
		case hasBank && hasLevels:
			d.fail(at("bank"), "stands in place of levels")
		case hasBank && hasTop:
			d.fail(at("bank"), "stands in place of top")
		case hasBank:
		case inherit && !hasLevels && !hasTop:
			*levels, *top, *bank = c.Levels, c.Top, c.Bank
		case inherit && !hasLevels && !(c.Transform == Smooth && c.Levels == nil):
			*levels = c.Levels
			if c.Bank != nil {
				d.fail(at("top"), "belongs to levels, of which there are none: the filter is a bank")
			}
		case !hasLevels && c.Detect != nil:
			if hasTop && *top != 1 {
				d.fail(at("top"), "belongs to levels: with detect and without levels there is the default bank")
			}
			*bank = hafvf.DefaultBankOf(c.Model.Family)
		case hasLevels:
		case c.Transform == Smooth:
			if hasTop && *top != 1 {
				d.fail(at("top"), "belongs to levels: without them sessions are smoothed in segments")
			}
			*levels, *top = nil, 0
		default:
			if hasTop {
				*levels = hafvf.DefaultMember().Levels
				break
			}
			*levels, *top, *bank = c.defaultFilter()
		}
	}
	one("", &c.Levels, &c.Top, &c.Bank, false)
	for i := range c.Keys {
		k := &c.Keys[i]
		at := fmt.Sprintf("keys.%d", i)
		one(at, &k.Levels, &k.Top, &k.Bank, true)
		for _, of := range []struct {
			part  keyed.FilterPart
			names []string
		}{
			{keyed.PriorPart, []string{".model.prior"}}, {keyed.SeasonPart, []string{".model.season"}}, {keyed.ZonePart, []string{".model.zone"}},
			{keyed.HolidaysPart, []string{".model.holidays"}}, {keyed.BankPart, []string{".levels", ".top", ".bank"}},
		} {
			if slices.ContainsFunc(of.names, func(name string) bool { return d.has(at + name) }) {
				k.Sets = append(k.Sets, of.part)
			}
		}
		if d.has(at+".detect") && c.Detect == nil && !d.failed("detect") {
			d.fail(at+".detect", "belongs to detect, which is not there")
		}
		if d.has(at+".silence") && c.Silence == nil && !d.failed("silence") {
			d.fail(at+".silence", "belongs to silence, which is not there")
		}
		if d.has(at+".alerts") && c.Detect == nil && c.Silence == nil && !d.failed("detect") && !d.failed("silence") {
			d.fail(at+".alerts", "there are none without detect or silence")
		}
	}
	d.lastValues(c, "bank", c.Bank)
	for i, k := range c.Keys {
		d.lastValues(c, fmt.Sprintf("keys.%d.bank", i), k.Bank)
	}
	if d.has("bank_forgetting") && c.Bank == nil && !slices.ContainsFunc(c.Keys, func(k KeyRule) bool { return k.Bank != nil }) {
		d.fail("bank_forgetting", "there is no bank")
	}
}

// defaultFilter is the filter of a family without levels and detection, or a bank in its place.
func (c *Config) defaultFilter() (levels []hafvf.Beta, top float64, bank []hafvf.Member) {
	all := hafvf.Config{Family: c.Model.Family}.Members()
	if len(all) > 1 {
		return nil, hafvf.DefaultMember().Top, all
	}
	return all[0].Levels, all[0].Top, nil
}

// lastValues refuses members on the last values where they cannot be.
func (d *decoder) lastValues(c *Config, path string, bank []hafvf.Member) {
	for i, m := range bank {
		at := fmt.Sprintf("%s.%d.ar", path, i)
		if m.AR == 0 || !d.has(at) {
			continue
		}
		model, err := expfam.New(c.Model.Family, c.Model.Prior, c.Model.Dim)
		if err != nil {
			return // which is said of the prior
		}
		if err := m.CheckAR(model, i); err != nil {
			d.fail(at, "%v", err)
		}
	}
}

// layout settles what the layouts wide and series need.
func (d *decoder) layout(c *Config) {
	f, path := c.Source.fields()
	switch f.Layout {
	case Wide:
		if !d.has(path + ".key") {
			f.Key = nil
		}
		if !d.has(path + ".values") {
			f.Values = []string{"*"}
		}
		f.Columns, f.Values = f.Values, []string{"value"}
	case Series:
		if len(f.Values) != 1 {
			d.fail(path+".values", "the layout series has one list of values")
		}
		if len(f.Time) > 1 {
			d.fail(path+".time", "the layout series has one list of times")
		}
	}
}

// seasons settles the seasons, of the model and of every rule.
func (d *decoder) seasons(c *Config, nodes *priorNodes) {
	one := func(path string, given seasonKeys, levels []hafvf.Beta) *usual.RhythmConfig {
		at := path + ".season"
		switch {
		case len(given.seasons) == 0:
			return nil
		case c.Transform == Smooth && levels != nil:
			d.fail(at, "is for sessions with segments: those with levels have none")
			return nil
		}
		if err := usual.Seasonal(c.Model.Family); err != nil && c.Model.Family != "" && d.has(at) {
			d.fail(at, "%v", err)
		}
		season := &usual.RhythmConfig{Seasons: given.seasons, Zone: given.zone, Holidays: given.holidays}
		if c.Detect != nil {
			season.Like = c.Detect.Holidays
		}
		return season
	}
	of := nodes.season
	c.Model.Season = one("model", of, c.Levels)
	some := c.Model.Season != nil
	for i := range c.Keys {
		k, path := &c.Keys[i], fmt.Sprintf("keys.%d.model", i)
		own := *nodes.seasons[k]
		if !d.has(path + ".season") {
			own.seasons = of.seasons
		}
		if !d.has(path + ".zone") {
			own.zone = of.zone
		}
		if !d.has(path + ".holidays") {
			own.holidays = of.holidays
		}
		k.Season = one(path, own, k.Levels)
		some = some || k.Season != nil
		d.needSeason(path, k.Season != nil)
	}
	d.needSeason("model", some)
	zone := "UTC"
	if c.Model.Season != nil {
		zone = of.zone
	} else if f, path := c.Source.fields(); path != "" {
		zone = f.Zone
	}
	if c.Detect != nil && !d.has("detect.zone") {
		c.Detect.Zone = zone
	}
	c.Zone = zone
	if some && c.Order == Arrival {
		d.needTime(c, "an empty name means that there is no time, which a season needs")
	}
}

// needTime refuses a source without times.
func (d *decoder) needTime(c *Config, reason string) {
	if f, path := c.Source.fields(); path != "" && len(f.Time) == 0 && !d.failed(path+".time") {
		d.fail(path+".time", "%s", reason)
	}
}

// checkNumbers refuses ways to write numbers that do not go together.
func (d *decoder) checkNumbers(c *Config) {
	f, path := c.Source.fields()
	if path == "" {
		return
	}
	if d.has(path+".thousands") && f.Thousands == f.Decimal {
		d.fail(path+".thousands", "%q is decimal: it cannot be both", f.Decimal)
	}
	for _, name := range []string{"unit", "thousands", "values_as"} {
		if d.has(join(path, name)) && f.Layout == Wide && slices.ContainsFunc(f.Columns, connectors.IsPattern) {
			d.fail(join(path, name), "takes names in values, where there is a pattern: that looks for plain numbers")
		}
		if d.has(join(path, name)) && name != "values_as" && f.ValuesAs != nil && !d.failed(path+".values_as") {
			d.fail(join(path, name), "is of numbers, and values_as names the only values: leave out one of them")
		}
	}
	family := c.Model.Family
	if f.Unit != "" && (family == "bernoulli" || family == "categorical") {
		d.fail(path+".unit", "is of measurements; %s has choices", family)
	}
	if f.ValuesAs == nil || d.failed(path+".values_as") {
		return
	}
	if family == "binomial" || family == "exponential" {
		d.fail(path+".values_as", "makes 0 and 1, and %s has other values", family)
	}
	for _, is := range f.ValuesAs {
		if is == "" || strings.EqualFold(is, "nan") || slices.Contains(f.Missing, is) {
			d.fail(path+".values_as", "%s is a missing value", message.Quote(is))
		}
	}
}

// needSeason refuses what belongs to the season of the model at path, where there is
// none.
func (d *decoder) needSeason(path string, there bool) {
	season := path + ".season"
	if there || slices.ContainsFunc(d.errs, func(e *KeyError) bool { return strings.HasPrefix(e.Key, season) }) {
		return
	}
	for _, name := range []string{path + ".zone", path + ".holidays"} {
		if d.has(name) {
			d.fail(name, "belongs to %s, and there is none", season)
		}
	}
}

// receivers settles what the receivers of alerts get. The detection is told which beliefs they
// ask for.
func (d *decoder) receivers(c *Config) {
	for i := range c.Alerts {
		r := &c.Alerts[i]
		if slices.Contains(r.Beliefs, string(hafvf.Revision)) && !slices.Contains(r.Beliefs, string(hafvf.Change)) {
			d.fail(join(r.At, "beliefs"), "a revision corrects a change; name change too")
		}
		if len(r.Labels) > 0 && r.File != nil && connectors.FormatOf(r.File.Format).Columns {
			d.fail(join(r.At, "labels"), "a table has no column for them")
		}
		if len(r.Labels) > 0 && r.Webhook != nil && r.Webhook.Form == "slack" {
			d.fail(join(r.At, "labels"), "a message of Slack does not show them")
		}
		if r.Webhook != nil && c.Incidents != nil && !d.has(join(r.At, "kinds")) {
			r.Kinds, r.Few, r.Webhook.Batches = pagerKinds(), r.Kinds, true
			if !d.has(join(r.At, "digest")) {
				r.Digest, r.NoFew = pagerDigest, true
			}
		}
		switch {
		case r.Digest > 0 && c.Incidents == nil:
			d.fail(join(r.At, "digest"), "lists the alarms in no incident: add incidents: true")
		case r.Digest > 0 && (r.Digest < leastDigest || r.Digest > mostDigest):
			d.fail(join(r.At, "digest"), "must be %s to %s, not %s", message.Duration(leastDigest), message.Duration(mostDigest), message.Duration(r.Digest))
		}
		if !d.has(join(r.At, "max_age")) && c.Source.Unending() {
			r.MaxAge = defaultMaxAge
		}
		if c.Detect == nil {
			continue
		}
		for _, kind := range r.Beliefs {
			if k := hafvf.Kind(kind); !slices.Contains(c.Detect.Beliefs, k) {
				c.Detect.Beliefs = append(c.Detect.Beliefs, k)
			}
		}
	}
}

// Digests are from an hour to a month.
const (
	leastDigest = time.Hour
	mostDigest  = 31 * 24 * time.Hour
)

// defaultMaxAge is the age above which alerts of a topic are not sent.
const defaultMaxAge = 24 * time.Hour

// checkIncidents settles the zone of incidents, and refuses them without alarms or times.
func (d *decoder) checkIncidents(c *Config) {
	i := c.Incidents
	if i == nil {
		return
	}
	if c.Detect == nil && c.Silence == nil && !d.failed("detect") && !d.failed("silence") {
		d.fail("incidents", "there are none without detect or silence")
	}
	if c.Order == Arrival {
		d.fail("incidents", "alarms come together in time: order: event_time")
	}
	if err := (incidents.Config{By: i.By}).Validate(); err != nil {
		d.fail("incidents.by", "%v", err)
	}
	if err := (incidents.Config{Single: i.Single}).Validate(); err != nil {
		d.fail("incidents.single", "%v", err)
	}
	if i.By != nil && d.has("incidents.separators") {
		d.fail("incidents.separators", "groups are those of by, or prefixes: leave out one of the two")
	}
	if i.Zone == "" {
		if i.Zone = c.Zone; c.Detect != nil {
			i.Zone = c.Detect.Zone
		}
	}
}

// defaultExpire is after how long keys of a topic without an end are forgotten.
const defaultExpire = 90 * 24 * time.Hour

// checkExpire settles when keys are forgotten.
func (d *decoder) checkExpire(c *Config) {
	switch written := d.has("expire"); {
	case c.Transform == Smooth && written:
		d.fail("expire", "belongs to transform: filter")
	case !written && c.Transform == Filter && c.Order == EventTime && c.Source.Unending():
		c.Expire = defaultExpire
	}
	if err := (&keyed.Config{Expire: c.Expire, Lateness: c.Lateness, Aggregate: c.Aggregate, Order: keyed.Order(c.Order)}).CheckExpire(); err != nil {
		always := ""
		if c.Order == EventTime {
			always = "; never keeps all keys"
		}
		d.fail("expire", "%v%s", err, always)
	}
}

// checkTransform refuses keys of one transform under the other.
func (d *decoder) checkTransform(c *Config) {
	if d.failed("transform") {
		return
	}
	d.checkUntimed(c)
	if c.Transform == Filter {
		for _, name := range []string{"session", "change"} {
			if d.has(name) {
				d.fail(name, "belongs to transform: smooth")
			}
		}
		if d.has("alerts") && c.Detect == nil && c.Silence == nil && !d.failed("detect") && !d.failed("silence") {
			d.fail("alerts", "there are none without detect or silence")
		}
		d.checkIncidents(c)
		if c.Silence != nil {
			if err := keyed.Order(c.Order).CheckTimes(); err != nil {
				d.fail("silence", "%v", err)
			}
		}
		return
	}
	for _, name := range []string{"detect", "bank", "time_unit", "alerts", "interval", "state", "silence", "incidents"} {
		if d.has(name) && !d.failed(name) {
			d.fail(name, "belongs to transform: filter")
		}
	}
	if c.Lateness != 0 && !d.failed("lateness") {
		d.fail("lateness", "is for transform: filter; sessions have session.allowed_lateness")
	}
}

// checkUntimed settles sessions without times, and refuses what goes by times beside them.
func (d *decoder) checkUntimed(c *Config) {
	f, path := c.Source.fields()
	at, what := "order", "order: arrival"
	if f.TimeFormat == Trial {
		at, what = path+".time_format", "time_format: trial"
	}
	switch order := c.SessionOrder(); {
	case c.Transform == Filter:
		if order == keyed.Trials {
			d.fail(at, "is for transform: smooth; the filter takes trials as they come: write order: arrival in place of it")
		}
		return
	case order == keyed.EventTime:
		if d.has("session.by") {
			d.fail("session.by", "tells sessions without times apart: add order: arrival or, to the source, time_format: trial; with times session.gap ends a session")
		}
		return
	}
	names := []string{"session.gap", "session.allowed_lateness", "lateness", "model.season", "silence", "aggregate"}
	for i := range c.Keys {
		names = append(names, fmt.Sprintf("keys.%d.model.season", i))
	}
	for _, name := range names {
		if d.has(name) && !d.failed(name) {
			d.fail(name, "goes by times, and %s has none: leave it out", what)
		}
	}
	if c.Source.Unending() {
		d.fail(at, "takes a source that ends, as a session without times is smoothed when all of it is read: read files, or say bounded: true in the source")
	}
	if len(c.Session.By) > 0 && path == "" {
		d.fail("session.by", "names columns or fields of records, and the points of a query have none: leave it out")
	}
	if f.TimeFormat == Trial {
		d.needTime(c, "an empty name means that there are no numbers of trials: name their column, or say order: arrival in place of time_format: trial")
		if len(f.Time) > 1 {
			d.fail(path+".time", "numbers of trials are in one column, and it names several")
		}
	}
	f.By, f.Untimed, c.Session.Gap = c.Session.By, at == "order", 0
}
