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

// filters sets the filter of the config and of each exception.
func (d *Reading) filters(c *Settings) {
	setFilter := func(path string, levels *[]hafvf.Beta, top *float64, bank *[]hafvf.Member, inherit bool) {
		sub := func(name string) string { return keytable.Join(path, name) }
		hasLevels, hasTop, hasBank := d.Has(sub("levels")), d.Has(sub("top")), d.Has(sub("bank"))
		switch {
		case hasBank && hasLevels:
			d.Fail(sub("bank"), "replaces levels: use one of the two")
		case hasBank && hasTop:
			d.Fail(sub("bank"), "replaces top: use one of the two")
		case hasBank:
		case inherit && !hasLevels && !hasTop:
			*levels, *top, *bank = c.Levels, c.Top, c.Bank
		case inherit && !hasLevels && !(c.Transform == Smooth && c.Levels == nil):
			*levels = c.Levels
			if c.Bank != nil {
				d.Fail(sub("top"), "belongs to levels, and there are none: the filter is a bank")
			}
		case !hasLevels && c.Detect != nil:
			if hasTop && *top != 1 {
				d.Fail(sub("top"), "belongs to levels: with detect and without levels there is the default bank")
			}
			*bank = hafvf.DefaultBankFor(c.Model.Family)
		case hasLevels:
		case c.Transform == Smooth:
			if hasTop && *top != 1 {
				d.Fail(sub("top"), "belongs to levels: without them sessions are smoothed in segments")
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
	setFilter("", &c.Levels, &c.Top, &c.Bank, false)
	for i := range c.Keys {
		k := &c.Keys[i]
		path := fmt.Sprintf("keys.%d", i)
		setFilter(path, &k.Levels, &k.Top, &k.Bank, true)
		for _, fields := range []struct {
			part  keyed.FilterPart
			names []string
		}{
			{keyed.PriorPart, []string{".model.prior"}}, {keyed.SeasonPart, []string{".model.season"}}, {keyed.ZonePart, []string{".model.zone"}},
			{keyed.HolidaysPart, []string{".model.holidays"}}, {keyed.BankPart, []string{".levels", ".top", ".bank"}},
		} {
			if slices.ContainsFunc(fields.names, func(name string) bool { return d.Has(path + name) }) {
				k.Sets = append(k.Sets, fields.part)
			}
		}
		noDetect, noSilence := c.Detect == nil && !d.Failed("detect"), c.Silence == nil && !d.Failed("silence")
		if noDetect {
			d.Refuse(path+".detect", "belongs to detect, which is not set")
		}
		if noSilence {
			d.Refuse(path+".silence", "belongs to silence, which is not set")
		}
		if noDetect && noSilence {
			d.Refuse(path+".alerts", "there are none without detect or silence")
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

// DefaultFilter returns the filter of the family without levels and detection. If the default is a bank, levels is
// nil and bank is not.
func (c *Settings) DefaultFilter() (levels []hafvf.Beta, top float64, bank []hafvf.Member) {
	members := hafvf.Config{Family: c.Model.Family}.Members()
	if len(members) > 1 {
		return nil, hafvf.DefaultMember().Top, members
	}
	return members[0].Levels, members[0].Top, nil
}

// lastValues rejects bank members with ar that the model does not support.
func (d *Reading) lastValues(c *Settings, path string, bank []hafvf.Member) {
	for i, m := range bank {
		arPath := fmt.Sprintf("%s.%d.ar", path, i)
		if m.AR == 0 || !d.Has(arPath) {
			continue
		}
		model, err := expfam.New(c.Model.Family, c.Model.Prior, c.Model.Dim)
		if err != nil {
			return // reported as an error of the prior
		}
		if err := m.CheckAR(model, i); err != nil {
			d.Fail(arPath, "%v", err)
		}
	}
}

// seasons sets the season of the model and of each exception.
func (d *Reading) seasons(c *Settings) {
	seasonOf := func(path string, keys seasonKeys, levels []hafvf.Beta) *usual.RhythmConfig {
		seasonPath := path + ".season"
		switch {
		case len(keys.seasons) == 0:
			return nil
		case c.Transform == Smooth && levels != nil:
			d.Fail(seasonPath, "is for sessions with segments, not with levels")
			return nil
		}
		if err := usual.Seasonal(c.Model.Family); err != nil && c.Model.Family != "" && d.Has(seasonPath) {
			d.Fail(seasonPath, "%v", err)
		}
		season := &usual.RhythmConfig{Seasons: keys.seasons, Zone: keys.zone, Holidays: keys.holidays}
		if c.Detect != nil {
			season.Like = c.Detect.Holidays
		}
		return season
	}
	base := d.season
	c.Model.Season = seasonOf("model", base, c.Levels)
	anySeason := c.Model.Season != nil
	for i := range c.Keys {
		k, path := &c.Keys[i], fmt.Sprintf("keys.%d.model", i)
		own := *d.keySeasons[k]
		if !d.Has(path + ".season") {
			own.seasons = base.seasons
		}
		if !d.Has(path + ".zone") {
			own.zone = base.zone
		}
		if !d.Has(path + ".holidays") {
			own.holidays = base.holidays
		}
		k.Season = seasonOf(path, own, k.Levels)
		anySeason = anySeason || k.Season != nil
		d.needSeason(path, k.Season != nil)
	}
	d.needSeason("model", anySeason)
	zone := cmp.Or(d.Source.Zone, "UTC")
	if c.Model.Season != nil {
		zone = base.zone
	}
	if c.Detect != nil && !d.Has("detect.zone") {
		c.Detect.Zone = zone
	}
	c.Zone = zone
	if anySeason && c.Order == Arrival {
		d.NeedTime("an empty name means that there is no time, which a season needs")
	}
}

// NeedTime reports an error if the source has no times.
func (d *Reading) NeedTime(reason string) {
	if s := &d.Source; s.Path != "" && len(s.Time) == 0 && !d.Failed(s.Path+".time") {
		d.Fail(s.Path+".time", "%s", reason)
	}
}

// needSeason rejects zone and holidays of the model at path if it has no season.
func (d *Reading) needSeason(path string, hasSeason bool) {
	season := path + ".season"
	if hasSeason || slices.ContainsFunc(d.Errs, func(e *keytable.KeyError) bool { return strings.HasPrefix(e.Key, season) }) {
		return
	}
	for _, name := range []string{path + ".zone", path + ".holidays"} {
		d.Refuse(name, "belongs to %s, and there is none", season)
	}
}

// defaultExpire is the default time after which keys of an endless source are forgotten.
const defaultExpire = 90 * 24 * time.Hour

// checkExpire sets and checks the time after which keys are forgotten.
func (d *Reading) checkExpire(c *Settings) {
	switch written := d.Has("expire"); {
	case c.Transform == Smooth && written:
		d.Fail("expire", "belongs to transform: filter")
	case !written && c.Transform == Filter && c.Order == EventTime && d.Source.Unbounded:
		c.Expire = defaultExpire
	}
	if err := (&keyed.Config{Expire: c.Expire, Lateness: c.Lateness, Aggregate: c.Aggregate, Order: keyed.Order(c.Order)}).CheckExpire(); err != nil {
		hint := ""
		if c.Order == EventTime {
			hint = "; never keeps all keys"
		}
		d.Fail("expire", "%v%s", err, hint)
	}
}

// checkTransform rejects keys of the other transform.
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
	if !c.Walk && (c.Model.Family != "normal" || c.Levels != nil) {
		d.Refuse("change.walk", "false is for the family normal without levels: only its sessions have walks and lines")
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

// checkUntimed checks sessions without times, and rejects keys that need times.
func (d *Reading) checkUntimed(c *Settings) {
	path, order := d.Source.Path, keyed.Order(c.Order)
	orderPath, orderText := "order", "order: arrival"
	if d.Source.Trials {
		order, orderPath, orderText = keyed.Trials, path+".time_format", "time_format: trial"
	}
	switch {
	case c.Transform == Filter:
		if order == keyed.Trials {
			d.Fail(orderPath, "is for transform: smooth; the filter reads trials in their order: use order: arrival instead")
		}
		return
	case order == keyed.EventTime:
		d.Refuse("session.by", "separates sessions without times: add order: arrival, or time_format: trial to the source; with times, session.gap ends a session")
		return
	}
	names := []string{"session.gap", "session.allowed_lateness", "lateness", "model.season", "silence", "aggregate"}
	for i := range c.Keys {
		names = append(names, fmt.Sprintf("keys.%d.model.season", i))
	}
	for _, name := range names {
		if d.Has(name) && !d.Failed(name) {
			d.Fail(name, "needs times, and %s has none: leave it out", orderText)
		}
	}
	if d.Source.Unbounded {
		d.Fail(orderPath, "needs a source that ends, because a session without times is smoothed when all of it has been read: read files, or set bounded: true in the source")
	}
	if len(c.Session.By) > 0 && path == "" {
		d.Fail("session.by", "names columns or fields of records, and the points of a query have none: leave it out")
	}
	if d.Source.Trials {
		d.NeedTime("an empty name means that there are no numbers of trials: name their column, or use order: arrival instead of time_format: trial")
		if len(d.Source.Time) > 1 {
			d.Fail(path+".time", "numbers of trials are in one column, and it names several")
		}
	}
	c.Session.Gap = 0
}
