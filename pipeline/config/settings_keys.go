package config

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/usual"
	"hafvf/internal/domain"
)

// keys declares the settings, which are read into c, priors into nodes. Defaults are what c holds before.
func (c *Settings) keys(nodes *priorNodes) []key {
	return []key{
		{name: "transform", doc: "filter: one estimate per observation, at once. smooth: one per observation, at the end of its session.",
			read: choice(&c.Transform, Filter, Smooth)},
		{name: "model", doc: "The assumptions about the values.", keys: []key{
			{name: "family", doc: "Family of distributions.", initial: required, read: choice(&c.Model.Family, expfam.Families()...)},
			{name: "prior", doc: "Textbook parameters; absent ones have the family's default (go doc ./hafvf). auto sets them from a key's first observations, for smooth from the session. {auto: true, order: 3} is auto with an order.",
				read: later("mapping of parameters, or auto", &nodes.model)},
			{name: "warm_up", doc: "Number of first observations that prior: auto looks at.", unit: "observations", initial: fmt.Sprint(keyed.DefaultWarmUp), read: whole(&nodes.warmUp, 2)},
			{name: "dim", doc: "Length of the observation, if neither prior nor columns fix it: of regression with the target, of categorical the categories.",
				read: whole(&c.Model.Dim, 1)},
			{name: "scale", doc: "The filter sees the values on this scale; for normal, mvnormal, regression (the target) and ar. Results are on the data's scale: mean is the median, sd by the delta method. If you change it, give --migrate.",
				read: choice((*string)(&c.Model.Scale), hafvf.Scales()...)},
			{name: "season", doc: "Cycles of the values. The filter sees the values less the season; of exponential and poisson it is a factor. bernoulli and categorical have none, nor smooth with levels. If you change it, give --migrate.",
				read: seasons(&nodes.season.seasons)},
			{name: "zone", doc: "Time zone of the season and its holidays. The season follows its clock, summer time too.", read: zone(&nodes.season.zone)},
			{name: "holidays", doc: "Local dates that the season does not learn.", read: dates(&nodes.season.holidays)},
		}},
		c.aggregateKey(nodes.aggregate),
		{name: "levels", doc: "Beta priors of the forgetting weights, bottom up: w, b, …. An empty list: no level. By default smooth looks for segments; bernoulli and categorical have a bank.",
			initial: formatLevels(hafvf.DefaultMember().Levels), read: levels(&c.Levels)},
		{name: "top", doc: "Fixed weight of the topmost level. 1 never forgets.", read: number(&c.Top, domain.Top)},
		{name: "bank", doc: "Several filters in place of levels and top, by Bayesian model averaging. With detect and no levels there is a default bank. Without all three bernoulli and categorical have " + formatMembers(hafvf.Config{Family: "bernoulli"}.Members()) + ".",
			read: members(&c.Bank)},
		{name: "bank_forgetting", doc: "Forgetting of the members' posterior weights, per observation.", read: number(&c.BankForgetting, domain.Forgetting)},
		{name: "detect", doc: "true separates outliers from changes and raises alarms within a budget.", initial: "false", read: detect(&c.Detect)},
		{name: "silence", doc: "true raises silent if a key is silent for longer than its rhythm allows, and recovered when it speaks again. A file raises silent when the key speaks again, or at its end. See GUIDE.", initial: "false", read: silence(&c.Silence)},
		{name: "keys", doc: "Exceptions for some keys. Of each field the first exception that matches a key and sets it holds. levels, top and bank are one field.", read: keyRules(&c.Keys, nodes)},
		{name: "quiet", doc: "Times in which nothing of some keys is learned or told: their records have quiet: true. Overlaps are one. The clock of a silence stands still. See GUIDE.", read: quietTimes(&nodes.quiet)},
		{name: "order", doc: "Order in which a key's records are learned: by their times, or as they come.", read: choice(&c.Order, EventTime, Arrival)},
		{name: "expire", doc: "A key without a record for so long, by records' times, is forgotten. Its next record has n = 1. By default 2160h for an endless topic or query with order: event_time, else never. It must exceed lateness and aggregate.every.", read: durationOr("never", &c.Expire)},
		{name: "lateness", doc: "How long a record waits for earlier ones of its key. At most 100,000 records of a key wait; further ones are rejected. The end of a file releases what waits: the next run with state rejects a record before it.", read: duration(&c.Lateness)},
		{name: "time_unit", doc: "The weight of memory acts once per this unit of time. By default once per observation.", read: milliseconds(&c.TimeUnit)},
		{name: "session", doc: "smooth: which records are smoothed together.", keys: []key{
			{name: "gap", doc: "Time without an observation of the key that ends a session. By default 30 times the median step of the key, and at least 30m; of an endless topic, and with allowed_lateness, 30m.", read: milliseconds(&c.Session.Gap)},
			{name: "allowed_lateness", doc: "How long after its end a session is revised by late records, on a topic by the times of their partition.", read: duration(&c.Session.AllowedLateness)},
			{name: "max", doc: "A longer session is cut into parts.", unit: "observations", read: whole(&c.Session.Max, 1)},
			{name: "by", doc: "With order: arrival or time_format: trial a session is a key and these; by default a key.", read: oneOrMore("columns or fields", &c.Session.By)},
		}},
		{name: "change", doc: "smooth: which changes are reported.", keys: []key{
			{name: "odds", doc: "A change takes higher odds: by default 10, or 4 without a scale.", read: number(&c.Odds, domain.Odds)},
		}},
		{name: "records", doc: "brief leaves out the fields that the list below marks with full.", read: choice(&c.Records, Brief, Full)},
		{name: "interval", doc: "filter: adds lower and upper, the central predictive interval of this probability.", read: number(&c.Interval, domain.Interval)},
	}
}

func levels(dst *[]hafvf.Beta) valueParser {
	return atMost(maxLevels, "levels", list("{alpha, beta}", dst, func(l *hafvf.Beta) []key {
		return []key{
			{name: "alpha", doc: "First parameter of the prior. A large one keeps more.", required: true, read: number(&l.Alpha, domain.Level)},
			{name: "beta", doc: "Second parameter of the prior. A large one forgets more.", required: true, read: number(&l.Beta, domain.Level)},
		}
	}))
}

// formatLevels writes levels as YAML.
func formatLevels(levels []hafvf.Beta) string {
	var all []string
	for _, l := range levels {
		all = append(all, fmt.Sprintf("{alpha: %g, beta: %g}", l.Alpha, l.Beta))
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// formatMembers writes the filters of a bank as YAML.
func formatMembers(bank []hafvf.Member) string {
	var all []string
	for _, m := range bank {
		all = append(all, fmt.Sprintf("{levels: %s, top: %g}", formatLevels(m.Levels), m.Top))
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// members reads the filters of a bank; at least one.
func members(dst *[]hafvf.Member) valueParser {
	r := atMost(maxMembers, "filters", list("{levels, top} or {ar, top}", dst, func(m *hafvf.Member) []key {
		return []key{
			{name: "levels", doc: "Beta priors of this member's weights. Required without ar, else none by default.", read: levels(&m.Levels)},
			{name: "top", doc: "Fixed weight of this member's topmost level.", required: true, read: number(&m.Top, domain.Top)},
			{name: "ar", doc: "normal: the member predicts a value from this number of last values. The first member has no ar.", read: upTo(&m.AR, expfam.MaxAR)},
		}
	}))
	read := r.read
	r.read = func(d *Decoder, path string, n *yaml.Node) {
		read(d, path, n)
		if n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
			d.fail(path, "must hold at least one filter {levels, top}")
		}
		for i := range *dst {
			at := fmt.Sprintf("%s.%d", path, i)
			m := &(*dst)[i]
			switch {
			case d.failed(at):
			case d.has(at + ".levels"):
			case d.has(at + ".ar"):
				m.Levels = []hafvf.Beta{}
			default:
				d.fail(at+".levels", "missing; it is required")
			}
		}
	}
	return r
}

// keyRules reads exceptions, their priors into nodes.
func keyRules(dst *[]KeyRule, nodes *priorNodes) valueParser {
	return list("{match, …}", dst, func(k *KeyRule) []key {
		k.Top = 1
		prior, season := new(*yaml.Node), new(seasonKeys)
		nodes.keys[k], nodes.seasons[k] = prior, season
		return []key{
			{name: "match", doc: "Keys that the exception is for. Labels match keys that are series; a label that a series has not is empty.", required: true, read: pattern(&k.Match)},
			{name: "model", doc: "What is assumed of the values of these keys.", keys: []key{
				{name: "prior", doc: "As model.prior, which is the default.", read: later("mapping of parameters, or auto", prior)},
				{name: "season", doc: "As model.season. [] is none.", initial: "that of the model", read: seasons(&season.seasons)},
				{name: "zone", doc: "As model.zone.", initial: "that of the model", read: zone(&season.zone)},
				{name: "holidays", doc: "As model.holidays.", initial: "those of the model", read: dates(&season.holidays)},
			}},
			{name: "levels", doc: "As levels, which are the default.", read: levels(&k.Levels)},
			{name: "top", doc: "As top. Without levels it goes with those of the config.", initial: "that of the config", read: number(&k.Top, domain.Top)},
			{name: "bank", doc: "As bank, which is the default.", read: members(&k.Bank)},
			{name: "detect", doc: "false keeps the filter and its records, and raises no alarm. Or fields of detect.", initial: "that of the config", read: keyDetect(&k.Detect)},
			{name: "silence", doc: "false tells no silence of these keys, {after: 25h} is their bound, and true their rhythm. It needs silence.", initial: "that of the config", read: keySilence(&k.Detect.Silence)},
			{name: "alerts", doc: "false computes, records and counts alarms and silences, and tells nobody: they reach no receiver and join no incident.", initial: "true", read: optional(&k.Alerts, boolean)},
		}
	})
}

// optional reads a value that is nil if it is absent.
func optional[T any](dst **T, parser func(*T) valueParser) valueParser {
	v := new(T)
	r := parser(v)
	read := r.read
	r.read = func(d *Decoder, path string, n *yaml.Node) {
		read(d, path, n)
		*dst = v
	}
	return r
}

// keySilence reads true, false, or {after}.
func keySilence(dst **keyed.SilenceConfig) valueParser {
	r := silence(dst)
	read := r.read
	r.read = func(d *Decoder, path string, n *yaml.Node) {
		if read(d, path, n); *dst == nil {
			*dst = &keyed.SilenceConfig{Never: true}
		}
	}
	return r
}

// keyDetect reads what some keys have of detect: false, or fields of it.
func keyDetect(dst *keyed.AlertRule) valueParser {
	const takes = "false, or a mapping"
	least := func(v *float64) valueParser { return number(v, domain.MinChange) }
	like := "that of detect"
	var of keyed.AlarmConfig
	pace := func(r valueParser, set func()) valueParser {
		read := r.read
		r.read = func(d *Decoder, path string, n *yaml.Node) {
			of = keyed.AlarmConfig{}
			read(d, path, n)
			set()
		}
		return r
	}
	keys := []key{
		{name: "cooldown", doc: "As detect.cooldown.", initial: like, read: optional(&dst.Cooldown, duration)},
		{name: "min_change", doc: "As detect.min_change.", initial: like, read: optional(&dst.MinChange, least)},
		{name: "min_abs", doc: "As detect.min_abs.", initial: like, read: optional(&dst.MinAbs, least)},
		{name: "min_rel", doc: "As detect.min_rel.", initial: like, read: optional(&dst.MinRel, least)},
		{name: "direction", doc: "As detect.direction.", initial: like, read: optional(&dst.Direction, func(v *keyed.Direction) valueParser {
			return choice((*string)(v), string(keyed.Both), string(keyed.Up), string(keyed.Down))
		})},
		{name: "budget", doc: "As detect.budget.", initial: like, read: pace(budget(&of), func() {
			dst.Budget, dst.BudgetTime = new(of.Budget), new(of.BudgetTime)
		})},
		{name: "rest", doc: "As detect.rest.", initial: like, read: pace(remainder(&of), func() {
			dst.Rest, dst.RestTime = new(of.Rest), new(of.RestTime)
		})},
		{name: "settling", doc: "As detect.settling.", initial: like, read: optional(&dst.Settling, duration)},
		{name: "season", doc: "As detect.season. If you change it or zone, these keys learn their usual values anew.", initial: like, read: optional(&dst.Seasons, seasons)},
		{name: "zone", doc: "As detect.zone.", initial: like, read: optional(&dst.Zone, zone)},
	}
	return valueParser{takes: takes, keys: keys, read: func(d *Decoder, path string, n *yaml.Node) {
		on := true
		switch {
		case n.Kind == yaml.MappingNode:
			d.mapping(path, n, keys)
		case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!bool" && n.Decode(&on) == nil && !on:
			dst.None = new(true)
			return
		default:
			d.wrongType(path, takes, n)
			return
		}
		dst.None = new(false)
	}}
}

// detect reads true, false, or settings.
func detect(dst **Detect) valueParser {
	return orSwitch(dst, "a mapping", defaultDetect, func(v *Detect) []key {
		return []key{
			{name: "commit", doc: "Posterior probability from which a change counts as certain.", read: number(&v.Commit, domain.Commit)},
			{name: "min_length", doc: "Observations that a new regime must have.", unit: "observations", read: whole(&v.MinLength, 1)},
			{name: "cooldown", doc: "A key raises no second alarm within this time.", read: duration(&v.Cooldown)},
			{name: "min_change", doc: "A smaller change or deviation raises no alarm.", unit: "standard deviations", read: number(&v.MinChange, domain.MinChange)},
			{name: "min_abs", doc: "As min_change, in the values' own units.", read: number(&v.MinAbs, domain.MinChange)},
			{name: "min_rel", doc: "As min_change, relative to what was usual: 0.1 is ten percent.", read: number(&v.MinRel, domain.MinChange)},
			{name: "direction", doc: "up raises alarms of rises alone, down of falls alone.", read: choice((*string)(&v.Direction), string(keyed.Both), string(keyed.Up), string(keyed.Down))},
			{name: "budget", doc: "A key raises about one alarm per budget at most, true and false ones together. Without times 2000 observations by default.", read: budget(&v.AlarmConfig)},
			{name: "rest", doc: "Pause of a key after an alarm. A much worse or opposite value alarms all the same; what does not counts as resting. A time counts at the median step of the records.", read: remainder(&v.AlarmConfig)},
			{name: "settling", doc: "The first time of a key, in which its threshold is higher. 0 is none.", read: duration(&v.Settling)},
			{name: "season", doc: "Cycles of the usual value, of keys with times, and the hours of its plan: those of the week if 168h is one, else of the day. [] is neither. If you change season, zone or ar, each key learns its usual values anew.", read: seasons(&v.Seasons)},
			{name: "zone", doc: "Zone of the season, and of times in messages: by default model.zone with a model.season, else that of the source.", read: zone(&v.Zone)},
			{name: "holidays", doc: "Days that are as another day of the week, Sundays by default: for what is usual, for silence, and for a model.season. They are learned as that day. New dates need no --migrate.", read: holidays(&v.Holidays)},
			{name: "ar", doc: "The usual value depends on this number of last values. 0 is none.", unit: "observations", read: upTo(&v.Order, usual.MaxOrder)},
		}
	})
}

// silence reads true, false, or {after}.
func silence(dst **keyed.SilenceConfig) valueParser {
	fresh := func() *keyed.SilenceConfig { return &keyed.SilenceConfig{} }
	return orSwitch(dst, "{after: 15m}", fresh, func(v *keyed.SilenceConfig) []key {
		return []key{{name: "after", doc: "A fixed bound in place of the key's rhythm.", read: milliseconds(&v.After)}}
	})
}
