package settings

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/usual"
	"hafvf/pipeline/settings/keytable"
)

// filters settles which filters there are, of the config's and of every rule.
func (d *Reading) filters(c *Settings) {
	one := func(path string, levels *[]hafvf.Beta, top *float64, bank *[]hafvf.Member, inherit bool) {
		at := func(name string) string { return keytable.Join(path, name) }
		hasLevels, hasTop, hasBank := d.Has(at("levels")), d.Has(at("top")), d.Has(at("bank"))
		switch {
		case hasBank && hasLevels:
			d.Fail(at("bank"), "stands in place of levels")
		case hasBank && hasTop:
			d.Fail(at("bank"), "stands in place of top")
		case hasBank:
		case inherit && !hasLevels && !hasTop:
			*levels, *top, *bank = c.Levels, c.Top, c.Bank
		case inherit && !hasLevels && !(c.Transform == Smooth && c.Levels == nil):
			*levels = c.Levels
			if c.Bank != nil {
				d.Fail(at("top"), "belongs to levels, of which there are none: the filter is a bank")
			}
		case !hasLevels && c.Detect != nil:
			if hasTop && *top != 1 {
				d.Fail(at("top"), "belongs to levels: with detect and without levels there is the default bank")
			}
			*bank = hafvf.DefaultBankOf(c.Model.Family)
		case hasLevels:
		case c.Transform == Smooth:
			if hasTop && *top != 1 {
				d.Fail(at("top"), "belongs to levels: without them sessions are smoothed in segments")
			}
			*levels, *top = nil, 0
		default:
			if hasTop {
				*levels = hafvf.DefaultMember().Levels
				break
			}
			*levels, *top, *bank = c.DefaultFilter()
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
			if slices.ContainsFunc(of.names, func(name string) bool { return d.Has(at + name) }) {
				k.Sets = append(k.Sets, of.part)
			}
		}
		noDetect, noSilence := c.Detect == nil && !d.Failed("detect"), c.Silence == nil && !d.Failed("silence")
		if noDetect {
			d.Refuse(at+".detect", "belongs to detect, which is not there")
		}
		if noSilence {
			d.Refuse(at+".silence", "belongs to silence, which is not there")
		}
		if noDetect && noSilence {
			d.Refuse(at+".alerts", "there are none without detect or silence")
		}
	}
	d.lastValues(c, "bank", c.Bank)
	for i, k := range c.Keys {
		d.lastValues(c, fmt.Sprintf("keys.%d.bank", i), k.Bank)
	}
	if d.Has("bank_forgetting") && c.Bank == nil && !slices.ContainsFunc(c.Keys, func(k KeyRule) bool { return k.Bank != nil }) {
		d.Fail("bank_forgetting", "there is no bank")
	}
}

// DefaultFilter is the filter of a family without levels and detection, or a bank in its place.
func (c *Settings) DefaultFilter() (levels []hafvf.Beta, top float64, bank []hafvf.Member) {
	all := hafvf.Config{Family: c.Model.Family}.Members()
	if len(all) > 1 {
		return nil, hafvf.DefaultMember().Top, all
	}
	return all[0].Levels, all[0].Top, nil
}

// lastValues refuses members on the last values where they cannot be.
func (d *Reading) lastValues(c *Settings, path string, bank []hafvf.Member) {
	for i, m := range bank {
		at := fmt.Sprintf("%s.%d.ar", path, i)
		if m.AR == 0 || !d.Has(at) {
			continue
		}
		model, err := expfam.New(c.Model.Family, c.Model.Prior, c.Model.Dim)
		if err != nil {
			return // which is said of the prior
		}
		if err := m.CheckAR(model, i); err != nil {
			d.Fail(at, "%v", err)
		}
	}
}

// seasons settles the seasons, of the model and of every rule.
func (d *Reading) seasons(c *Settings) {
	one := func(path string, given seasonKeys, levels []hafvf.Beta) *usual.RhythmConfig {
		at := path + ".season"
		switch {
		case len(given.seasons) == 0:
			return nil
		case c.Transform == Smooth && levels != nil:
			d.Fail(at, "is for sessions with segments: those with levels have none")
			return nil
		}
		if err := usual.Seasonal(c.Model.Family); err != nil && c.Model.Family != "" && d.Has(at) {
			d.Fail(at, "%v", err)
		}
		season := &usual.RhythmConfig{Seasons: given.seasons, Zone: given.zone, Holidays: given.holidays}
		if c.Detect != nil {
			season.Like = c.Detect.Holidays
		}
		return season
	}
	of := d.season
	c.Model.Season = one("model", of, c.Levels)
	some := c.Model.Season != nil
	for i := range c.Keys {
		k, path := &c.Keys[i], fmt.Sprintf("keys.%d.model", i)
		own := *d.keySeasons[k]
		if !d.Has(path + ".season") {
			own.seasons = of.seasons
		}
		if !d.Has(path + ".zone") {
			own.zone = of.zone
		}
		if !d.Has(path + ".holidays") {
			own.holidays = of.holidays
		}
		k.Season = one(path, own, k.Levels)
		some = some || k.Season != nil
		d.needSeason(path, k.Season != nil)
	}
	d.needSeason("model", some)
	zone := cmp.Or(d.Source.Zone, "UTC")
	if c.Model.Season != nil {
		zone = of.zone
	}
	if c.Detect != nil && !d.Has("detect.zone") {
		c.Detect.Zone = zone
	}
	c.Zone = zone
	if some && c.Order == Arrival {
		d.NeedTime("an empty name means that there is no time, which a season needs")
	}
}

// NeedTime refuses a source without times.
func (d *Reading) NeedTime(reason string) {
	if s := &d.Source; s.Path != "" && len(s.Time) == 0 && !d.Failed(s.Path+".time") {
		d.Fail(s.Path+".time", "%s", reason)
	}
}

// needSeason refuses what belongs to the season of the model at path, where there is
// none.
func (d *Reading) needSeason(path string, there bool) {
	season := path + ".season"
	if there || slices.ContainsFunc(d.Errs, func(e *keytable.KeyError) bool { return strings.HasPrefix(e.Key, season) }) {
		return
	}
	for _, name := range []string{path + ".zone", path + ".holidays"} {
		d.Refuse(name, "belongs to %s, and there is none", season)
	}
}

// defaultExpire is after how long keys of a topic without an end are forgotten.
const defaultExpire = 90 * 24 * time.Hour

// checkExpire settles when keys are forgotten.
func (d *Reading) checkExpire(c *Settings) {
	switch written := d.Has("expire"); {
	case c.Transform == Smooth && written:
		d.Fail("expire", "belongs to transform: filter")
	case !written && c.Transform == Filter && c.Order == EventTime && d.Source.Unending:
		c.Expire = defaultExpire
	}
	if err := (&keyed.Config{Expire: c.Expire, Lateness: c.Lateness, Aggregate: c.Aggregate, Order: keyed.Order(c.Order)}).CheckExpire(); err != nil {
		always := ""
		if c.Order == EventTime {
			always = "; never keeps all keys"
		}
		d.Fail("expire", "%v%s", err, always)
	}
}

// checkTransform refuses keys of one transform under the other.
func (d *Reading) checkTransform(c *Settings) {
	if d.Failed("transform") {
		return
	}
	d.checkUntimed(c)
	if c.Transform == Filter {
		for _, name := range []string{"session", "change"} {
			d.Refuse(name, "belongs to transform: smooth")
		}
		return
	}
	for _, name := range []string{"detect", "bank", "time_unit", "alerts", "interval", "state", "silence", "incidents"} {
		if d.Has(name) && !d.Failed(name) {
			d.Fail(name, "belongs to transform: filter")
		}
	}
	if c.Lateness != 0 && !d.Failed("lateness") {
		d.Fail("lateness", "is for transform: filter; sessions have session.allowed_lateness")
	}
}

// checkUntimed settles sessions without times, and refuses what goes by times beside them.
func (d *Reading) checkUntimed(c *Settings) {
	path, order := d.Source.Path, keyed.Order(c.Order)
	at, what := "order", "order: arrival"
	if d.Source.Trials {
		order, at, what = keyed.Trials, path+".time_format", "time_format: trial"
	}
	switch {
	case c.Transform == Filter:
		if order == keyed.Trials {
			d.Fail(at, "is for transform: smooth; the filter takes trials as they come: write order: arrival in place of it")
		}
		return
	case order == keyed.EventTime:
		d.Refuse("session.by", "tells sessions without times apart: add order: arrival or, to the source, time_format: trial; with times session.gap ends a session")
		return
	}
	names := []string{"session.gap", "session.allowed_lateness", "lateness", "model.season", "silence", "aggregate"}
	for i := range c.Keys {
		names = append(names, fmt.Sprintf("keys.%d.model.season", i))
	}
	for _, name := range names {
		if d.Has(name) && !d.Failed(name) {
			d.Fail(name, "goes by times, and %s has none: leave it out", what)
		}
	}
	if d.Source.Unending {
		d.Fail(at, "takes a source that ends, as a session without times is smoothed when all of it is read: read files, or say bounded: true in the source")
	}
	if len(c.Session.By) > 0 && path == "" {
		d.Fail("session.by", "names columns or fields of records, and the points of a query have none: leave it out")
	}
	if d.Source.Trials {
		d.NeedTime("an empty name means that there are no numbers of trials: name their column, or say order: arrival in place of time_format: trial")
		if len(d.Source.Time) > 1 {
			d.Fail(path+".time", "numbers of trials are in one column, and it names several")
		}
	}
	c.Session.Gap = 0
}
