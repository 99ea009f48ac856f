package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"hafvf/connectors/webhook"
	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/hafvf/incidents"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/usual"
	"hafvf/internal/domain"
	"hafvf/internal/times"
)

// required is the default of a key whose absence check reports in its own words.
const required = "required"

// keys declares the config: each key, what it means, and how its value is read into
// c, priors into nodes. Defaults are what c holds before.
func (c *Config) keys(nodes *priorNodes) []key {
	return []key{
		{name: "transform", doc: "filter makes an estimate of every observation as it comes. smooth waits until a session has ended. Each of its estimates then uses the whole session.",
			read: choice(&c.Transform, Filter, Smooth)},
		{name: "model", doc: "The assumptions about the values.", keys: []key{
			{name: "family", doc: "Family of distributions.", initial: required, read: choice(&c.Model.Family, expfam.Families()...)},
			{name: "prior", doc: "Textbook parameters of the family. An absent parameter has the family's default (go doc ./hafvf). auto sets the parameters from a key's first observations, for smooth from the session. {auto: true, order: 3} is auto with a parameter that has no scale, here order. A mapping without auto: true does not look at the data. If the family is ar, an absent prior is auto, of order 2.",
				read: later("mapping of parameters, or auto", &nodes.model)},
			{name: "warm_up", doc: "Number of first observations that prior: auto looks at.", unit: "observations", initial: fmt.Sprint(keyed.DefaultWarmUp), read: whole(&nodes.warmUp, 2)},
			{name: "dim", doc: "Length of the observation vector, if neither prior nor columns fix it. For regression it counts regressors and target, for categorical the categories.",
				read: whole(&c.Model.Dim, 1)},
			{name: "scale", doc: "The filter sees the values on this scale; for normal, mvnormal, regression (the target) and ar. predicted, estimate and bounds come back on the data's own scale: mean is the median there, and sd is that of the delta method. posterior stays on the scale. If you change the scale, a run refuses the states.",
				read: choice((*string)(&c.Model.Scale), hafvf.Scales()...)},
			{name: "season", doc: "Cycles of the values: a list of periods, or a mapping of periods to numbers of harmonics. The model learns the season and filters the values less the season. For exponential and poisson a season is a factor. bernoulli and categorical have no season. Every record needs a time. smooth has a season if a session has at least two periods, and has no season with levels. If you change the season or the zone, a run refuses the states.",
				read: seasons(&nodes.season.seasons)},
			{name: "zone", doc: "Time zone of the season and its holidays. The season follows the clock of the zone, also when summer time begins or ends.", read: zone(&nodes.season.zone)},
			{name: "holidays", doc: "Local dates. The season does not learn from them.", read: dates(&nodes.season.holidays)},
		}},
		c.aggregateKey(nodes.aggregate),
		{name: "levels", doc: "Beta priors of the forgetting weights, bottom up: w, b, …. An empty list means no level. smooth has no levels by default and looks for segments; with levels it runs the filter forward and backward instead.",
			initial: formatLevels(hafvf.DefaultMember().Levels), read: levels(&c.Levels)},
		{name: "top", doc: "Fixed weight of the topmost level. 1 never forgets.", read: number(&c.Top, domain.Top)},
		{name: "bank", doc: "Several filters of the family in place of levels and top, combined by Bayesian model averaging. If there is detect and are no levels, there is a default bank.",
			read: members(&c.Bank)},
		{name: "bank_forgetting", doc: "Forgetting of the members' posterior weights, per observation.", read: number(&c.BankForgetting, domain.Forgetting)},
		{name: "detect", doc: "true separates outliers from changes and raises alarms within a budget. A mapping gives other settings.", initial: "false", read: detect(&c.Detect)},
		{name: "silence", doc: "true raises the alarm silent if a key has been silent for longer than its rhythm allows, and the alarm recovered when the key speaks again. The rhythm is a rate of records for each hour of weekdays, of Saturdays and of Sundays, in detect.zone or what that would be. A key that ends is silent after about log(n) + 5 of its usual gaps, with n records in four weeks. Before an hour of the day is known, after two days, it counts little: a key that ends on its first day is silent after four days. With detect, detect.budget pays silent with the other alarms, and a silence beyond it is not told. {after: 15m} sets the bound itself. A topic or a query without an end raises silent while the key is silent, once the watermark has passed the bound and lateness. If nothing comes, the watermark follows the clock, as source.kafka.disorder says. A file, and a topic with bounded: true, raise both alarms when the key speaks again. At their end they raise silent for the keys that are silent by the time of the last record of any key, except on Flink. With state the next run knows that. The time of silent is the time at which the bound was passed.", initial: "false", read: silence(&c.Silence)},
		{name: "incidents", doc: "true groups the alarms of many keys that have one cause: those that come together in time and under one prefix of their keys, more often than chance lets them. An incident is an alert of kind incident, which opens, grows and closes under one id. The alarms that belong to it have its id in the field incident. Alarms wait until the watermark has passed their times; alarms of files wait for the end of the input.", initial: "false", read: incidentsKey(&c.Incidents)},
		{name: "keys", doc: "Exceptions for some keys. The first exception whose pattern matches a key holds.", read: keyRules(&c.Keys, nodes)},
		{name: "order", doc: "Order in which a key's records are learned: by their times, or as they come.", read: choice(&c.Order, EventTime, Arrival)},
		{name: "expire", doc: "A key without a record for so long, by the times of records, is forgotten: its state, silence, open intervals, and the debt of its alarms. Its next record begins it anew, with n = 1. If the key is silent, that alarm comes before hafvf forgets the key. With aggregate the time counts from the interval of the key's last event. A topic or a query without an end gives the room back when the times of its partition, or of the query, have passed it, at most a sixteenth of the time later, and deletes the state from the changelog. A topic that stops keeps its keys. A file, and a topic with bounded: true, only begin such keys anew, and the file of state leaves out those that have expired by the last record of any key. never keeps all keys. By default 2160h (90 days) for a topic or a query without an end with order: event_time, else never. It must be longer than lateness and aggregate.every.", read: durationOr("never", &c.Expire)},
		{name: "lateness", doc: "How long a record waits for earlier ones of its key. At most 100,000 records of a key wait; further ones are rejected.", read: duration(&c.Lateness)},
		{name: "time_unit", doc: "The weight of memory acts once per this unit of time. By default it acts once per observation.", read: milliseconds(&c.TimeUnit)},
		{name: "session", doc: "smooth: which records are smoothed together.", keys: []key{
			{name: "gap", doc: "Time without an observation of the key that ends a session.", read: milliseconds(&c.Session.Gap)},
			{name: "allowed_lateness", doc: "How long after its end a session is revised by late records, on a topic by the times of their partition.", read: duration(&c.Session.AllowedLateness)},
			{name: "max", doc: "A longer session is cut into parts.", unit: "observations", read: whole(&c.Session.Max, 1)},
		}},
		{name: "change", doc: "smooth: which changes are reported.", keys: []key{
			{name: "odds", doc: "A change is reported if the odds in its favour are higher.", read: number(&c.Odds, domain.Odds)},
		}},
		{name: "records", doc: "Fields of a record. brief leaves out the fields that few people read; the list of fields below marks these with full.", read: choice(&c.Records, Brief, Full)},
		{name: "interval", doc: "filter: adds lower and upper, the central predictive interval of this probability.", read: number(&c.Interval, domain.Interval)},
		{name: "state", doc: "filter: file of the filters' states. A run of files goes on from the states in the file, and replaces the file at the end, together with the outputs. The file says how far each input file was read: a run passes over these records, and its outputs hold the new ones. An input file that does not begin as it did is read whole, and a record before the last one of its key is late. A second run with the same file is refused while the first one has it. If the changelog has had no states yet, a run of topics begins with these; it does not write the file. A run of a query without an end goes on where the one before has stopped, and replaces the file every minute and at its end, as soon as the sinks have what came before.", read: text(&c.State, notEmpty)},
		{name: "source", doc: "Where records come from.", required: true, single: true, keys: c.Source.keys()},
		{name: "sink", doc: "Where estimates go. none writes no estimates: the run has alarms only.", initial: `{jsonl: {path: "-"}}`, single: true,
			seen: func() { c.Sink = Sink{} }, none: func() { c.Sink.None = true }, keys: append(c.Sink.keys(), c.Sink.prometheusKey())},
		{name: "dead_letter", doc: "Where rejected records go. By default they go to standard error as JSON Lines.", single: true, keys: c.deadLetterKeys()},
		{name: "alerts", doc: "Where alarms go, with detect or silence: a receiver, or a list of receivers. By default they go nowhere.", read: receivers(&c.Alerts)},
		{name: "runner", doc: "What executes the pipeline.", keys: c.Runner.keys()},
	}
}

func levels(dst *[]hafvf.Beta) reader {
	return list("{alpha, beta}", dst, func(l *hafvf.Beta) []key {
		return []key{
			{name: "alpha", doc: "First parameter of the Beta prior. A large value keeps more.", required: true, read: number(&l.Alpha, domain.Level)},
			{name: "beta", doc: "Second parameter of the Beta prior. A large value forgets more.", required: true, read: number(&l.Beta, domain.Level)},
		}
	})
}

// formatLevels writes levels as YAML.
func formatLevels(levels []hafvf.Beta) string {
	var all []string
	for _, l := range levels {
		all = append(all, fmt.Sprintf("{alpha: %g, beta: %g}", l.Alpha, l.Beta))
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// members reads the filters of a bank; at least one.
func members(dst *[]hafvf.Member) reader {
	r := list("{levels, top} or {ar, top}", dst, func(m *hafvf.Member) []key {
		return []key{
			{name: "levels", doc: "Beta priors of this member's weights. A member without ar requires them; with ar an absent list means no level.", read: levels(&m.Levels)},
			{name: "top", doc: "Fixed weight of this member's topmost level.", required: true, read: number(&m.Top, domain.Top)},
			{name: "ar", doc: "normal: the member predicts a value from this number of last values. The first member has no ar.", read: upTo(&m.AR, expfam.MaxAR)},
		}
	})
	read := r.read
	r.read = func(d *decoder, path string, n *yaml.Node) {
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
func keyRules(dst *[]KeyRule, nodes *priorNodes) reader {
	return list("{match, …}", dst, func(k *KeyRule) []key {
		k.Top = 1
		prior, season := new(*yaml.Node), new(seasonKeys)
		nodes.keys[k], nodes.seasons[k] = prior, season
		return []key{
			{name: "match", doc: "Keys that the exception is for.", required: true, read: pattern(&k.Match)},
			{name: "model", doc: "What is assumed of the values of these keys.", keys: []key{
				{name: "prior", doc: "As model.prior, which is the default.", read: later("mapping of parameters, or auto", prior)},
				{name: "season", doc: "As model.season. [] is none.", initial: "that of the model", read: seasons(&season.seasons)},
				{name: "zone", doc: "As model.zone.", initial: "that of the model", read: zone(&season.zone)},
				{name: "holidays", doc: "As model.holidays.", initial: "those of the model", read: dates(&season.holidays)},
			}},
			{name: "levels", doc: "As levels, which are the default.", read: levels(&k.Levels)},
			{name: "top", doc: "As top. If the exception has no levels, top goes with the levels of the config.", initial: "that of the config", read: number(&k.Top, domain.Top)},
			{name: "bank", doc: "As bank, which is the default.", read: members(&k.Bank)},
		}
	})
}

// detect reads true, false, or settings.
func detect(dst **Detect) reader {
	return orSwitch(dst, "a mapping", defaultDetect, func(v *Detect) []key {
		return []key{
			{name: "commit", doc: "Posterior probability from which a change counts as certain.", read: number(&v.Commit, domain.Commit)},
			{name: "min_length", doc: "Observations that a new regime must have.", unit: "observations", read: whole(&v.MinLength, 1)},
			{name: "cooldown", doc: "A key raises no second alarm within this time.", read: duration(&v.Cooldown)},
			{name: "min_change", doc: "A smaller change or deviation raises no alarm.", unit: "standard deviations", read: number(&v.MinChange, domain.MinChange)},
			{name: "min_abs", doc: "As min_change, in the values' own units.", read: number(&v.MinAbs, domain.MinChange)},
			{name: "min_rel", doc: "As min_change, relative to what was usual: 0.1 is ten percent.", read: number(&v.MinRel, domain.MinChange)},
			{name: "direction", doc: "up raises alarms of rises alone, down of falls alone.", read: choice((*string)(&v.Direction), string(keyed.Both), string(keyed.Up), string(keyed.Down))},
			{name: "budget", doc: "A key raises about one alarm per budget at most, true and false ones together. Keys without times have a budget of 2000 observations by default.", read: budget(&v.AlarmConfig)},
			{name: "rest", doc: "Time or number of observations after an alarm in which the key raises no other alarm. They belong to the same incident. A time counts as many observations as come in it at the key's median step. A key without times rests for a 24th of its budget, within 6 to 60 observations, in place of a time.", read: rest(&v.AlarmConfig)},
			{name: "season", doc: "Cycles of the usual value, of keys with times: a list of periods, or a mapping of periods to numbers of harmonics. [] is no cycle. If you change season, zone or ar, each key learns its usual values from the beginning.", read: seasons(&v.Seasons)},
			{name: "zone", doc: "Time zone of the season, and of the times in messages. The default is model.zone if there is a model.season, else the zone of the source.", read: zone(&v.Zone)},
			{name: "ar", doc: "The usual value depends on this number of last values. 0 is none.", unit: "observations", read: upTo(&v.Order, usual.MaxOrder)},
		}
	})
}

// silence reads true, false, or {after}.
func silence(dst **keyed.SilenceConfig) reader {
	fresh := func() *keyed.SilenceConfig { return &keyed.SilenceConfig{} }
	return orSwitch(dst, "{after: 15m}", fresh, func(v *keyed.SilenceConfig) []key {
		return []key{{name: "after", doc: "A fixed bound in place of the key's rhythm.", read: milliseconds(&v.After)}}
	})
}

func incidentsKey(dst **Incidents) reader {
	fresh := func() *Incidents {
		return &Incidents{Budget: incidents.DefaultBudget, Separators: incidents.DefaultSeparators}
	}
	return orSwitch(dst, "{budget: 168h}", fresh, func(v *Incidents) []key {
		return []key{
			{name: "budget", doc: "Time in which one false incident is allowed on average. At most seven incidents in this time are pages for long, also of true causes.", read: milliseconds(&v.Budget)},
			{name: "separators", doc: "Characters that end a prefix of a key: the key a/b:c has the groups a and a/b, beside the group of all keys.", read: text(&v.Separators, notEmpty)},
			{name: "zone", doc: "Time zone of the hours of the day, in which alarms are rarer or more frequent.", initial: "that of detect", read: zone(&v.Zone)},
		}
	})
}

func (s *Source) keys() []key {
	csv := &CSV{Fields: defaultFields(), Delimiter: ','}
	jsonl := &JSONL{Fields: defaultFields()}
	parquet := &Parquet{Fields: defaultFields()}
	return []key{
		{name: "csv", doc: "Delimited text with a header line.", seen: func() { s.CSV = csv },
			keys: slices.Concat([]key{sourcePath(&csv.Path)}, csv.Fields.keys("Column"), []key{
				csv.Fields.layout("column", "row"),
				{name: "delimiter", doc: "Separates the fields of a line.", read: delimiter(&csv.Delimiter)},
				{name: "decimal", doc: "Separates the whole part of a number from its fraction.", read: decimal(&csv.Decimal)},
			})},
		{name: "jsonl", doc: "One JSON object per line.", seen: func() { s.JSONL = jsonl },
			keys: slices.Concat([]key{sourcePath(&jsonl.Path)}, jsonl.Fields.keys("Field"), []key{jsonl.Fields.layout("field", "record")})},
		{name: "parquet", doc: "Parquet files.", seen: func() { s.Parquet = parquet },
			keys: slices.Concat([]key{sourcePath(&parquet.Path)}, parquet.Fields.keys("Column"), []key{parquet.Fields.layout("column", "row")})},
		s.kafkaKey(),
		s.prometheusKey(),
	}
}

func sourcePath(dst *string) key {
	return key{name: "path", doc: `A file, a pattern such as data/*.csv, or "-" for standard input.`, required: true, read: text(dst, notEmpty)}
}

func defaultFields() Fields {
	return Fields{Key: []string{"key"}, Time: "time", Values: []string{"x"}, Layout: Long, Zone: "UTC", Decimal: '.'}
}

// layout declares the layout of columns or fields.
func (f *Fields) layout(what string, rows string) key {
	doc := "long: a " + rows + " is an observation. wide: each " + what + " of values is a key of its own, named by the " + what + ", behind the key's parts if key is given; an empty one is a missing observation of that key. Then values are names, or patterns in which * stands for any text and ? for a character. A pattern takes what holds numbers"
	names := []string{Long, Wide}
	if what == "field" {
		doc += ". In the wide layout key is none by default, and values is [\"*\"]. series: values names a list of numbers, and time a list of as many times, all of one key; without times, values is a list of pairs of a time and a number. The id of such an observation is file:line/k, with k from 0."
		names = append(names, Series)
	} else {
		doc += ", by the first 1,000 rows, and of standard input by the first one. In the wide layout key is none by default, and values is [\"*\"]."
	}
	return key{name: "layout", doc: doc, read: choice(&f.Layout, names...)}
}

// keys declare what a record looks like. It has columns or fields.
func (f *Fields) keys(what string) []key {
	nested := ""
	if what == "Field" {
		nested = " A dotted path leads into objects, as in sensor.id. An object of labels is the key that Prometheus writes: name{a=\"b\",…}."
	}
	none := ""
	if f.MaxAhead == 0 {
		none = "none"
	}
	return []key{
		{name: "key", doc: what + " of the key. A list joins several with \"/\"; in the parts % becomes %25 and / becomes %2F, so that different parts make different keys. none makes one series of all records of a file or topic; its key is the name of the file or topic." + nested, read: keyFields(&f.Key)},
		{name: "time", doc: what + " of the time. An empty name means that records have no time, which needs order: arrival.", read: text(&f.Time, mayBeEmpty)},
		{name: "values", doc: what + "s of the value. Several make one vector.", read: oneOrMore(strings.ToLower(what)+"s", &f.Values)},
		{name: "zone", doc: "Time zone of times that have no offset. In the hour that its clock shows twice, as it goes back, the order of the records of a key tells which time is which.", read: zone(&f.Zone)},
		{name: "time_format", doc: "Form of the times, as a Go layout or for strftime. These forms need none: " + times.Understood + ". Of numbers: " + times.Unix + " takes them as Unix times, " + times.Spreadsheet + " as days since 1899-12-30 on the clock of zone. Without a form, a run refuses a file whose first 100 times are all between 20,000 and 80,000: they are more likely days of a spreadsheet than seconds of 1970-01-01. Of standard input and topics it rejects each record with such a time.", read: timeFormat(&f.TimeFormat)},
		{name: "max_ahead", doc: "How far a time may be ahead of the clock of this computer. A record whose time is further ahead is rejected: it would make the later records of its key late. none takes every time. A key that has learned a time ahead of the clock goes back when five of its records in a row, in order, are late; four are rejected.", initial: none, read: durationOr("none", &f.MaxAhead)},
		{name: "missing", doc: "Texts that stand for a missing value. An empty text, null and NaN always stand for one.", read: missing(&f.Missing)},
	}
}

func (s *Sink) keys() []key {
	connector := func(name, doc string, dst **File) key {
		f := &File{Path: "-"}
		return key{name: name, doc: doc, seen: func() { *dst = f }, keys: []key{
			{name: "path", doc: `A file, or "-" for standard output; .gz and .zst compress.`, read: text(&f.Path, notEmpty)},
		}}
	}
	return []key{
		connector("csv", "Delimited text with a header line. A text that a spreadsheet would take for a formula, as it begins with =, +, -, @, a tab or a carriage return and is no number, has an apostrophe in front. hafvf does not take it off when it reads the file; JSON Lines and Parquet have the text as it is.", &s.CSV),
		connector("jsonl", "One JSON object per line.", &s.JSONL),
		connector("parquet", "One Parquet file.", &s.Parquet),
		s.kafkaKey(),
	}
}

// receivers reads a receiver of alerts, or a list of them.
func receivers(dst *[]Receiver) reader {
	fresh := func(path string) Receiver { return Receiver{At: path, Kinds: AlarmKinds(), MaxAge: -1} }
	example := fresh("")
	one := func(d *decoder, path string, n *yaml.Node) {
		r := fresh(path)
		keys := r.keys()
		d.mapping(path, n, keys)
		if n.Kind == yaml.MappingNode {
			d.single(path, n, keys)
		}
		r.Ends = d.has(join(path, "kinds")) && slices.Contains(r.Kinds, keyed.RecoveredAlarm)
		if r.Webhook != nil {
			r.Webhook.Ends = r.Ends
		}
		*dst = append(*dst, r)
	}
	return reader{
		takes: "one of " + strings.Join(alternatives(example.keys()), ", ") + ", or a list of such",
		keys:  example.keys(),
		read: func(d *decoder, path string, n *yaml.Node) {
			if n.Kind != yaml.SequenceNode {
				one(d, path, n)
				return
			}
			for i, e := range n.Content {
				one(d, d.entry(path, i, e), e)
			}
		},
	}
}

func (r *Receiver) keys() []key {
	return append(r.Sink.keys(),
		r.hookKey("webhook", "A URL. Alerts are sent to it as JSON arrays by POST, at least once: a receiver recognises repeats by id and kind. Alerts wait beside the pipeline for a receiver that is away: at most 10,000, with a changelog also over restarts. An alert that the receiver refuses, or that finds no place, goes to the dead letter, and so do those that wait when a run without a changelog ends. A redirect is a refusal. After 401 and 403 secrets are read again, and if they have changed, there is one more try."),
		r.hookKey("alertmanager", "The URL of a Prometheus Alertmanager. It gets alerts by its API, version 2, with the labels alertname (hafvf), key and kind, those of the key's series if the key is one, as name{a=\"b\"}, and those of labels: group_by: [key] groups alerts. recovered resolves silent, and if kinds names it, novelty and change, which last until then. An incident that closes resolves the one that opened, whose label id has its id. The Alertmanager resolves other alerts after its resolve_timeout. All else is as for webhook."),
		key{name: "kinds", doc: "Kinds of alarms that go to this receiver. silent needs silence, and incident needs incidents. recovered is the end of a silence; if kinds is written out and names it, also that of a novelty or change, when the key is back to usual or the profile has become used to it: with the id of the alarm that began it, and size and score of its peak. An alarm lasts until then, and raises another one before that only if it is much worse or on the other side of usual. A webhook or an Alertmanager gets one message when an incident becomes a page, and one when the incident is over. Files and topics get all that becomes of incidents, also of those that are no pages.", setting: true, read: choices(&r.Kinds, AlarmKinds()...)},
		key{name: "beliefs", doc: "Kinds of beliefs that go to this receiver too, whatever the budget.", setting: true, initial: "[]",
			read: choices(&r.Beliefs, string(hafvf.Outlier), string(hafvf.Change), string(hafvf.Revision))},
		key{name: "keys", doc: "Pattern of the keys whose alerts go to this receiver: " + domain.Wildcards + ". By default all do.", setting: true, read: pattern(&r.Keys)},
		key{name: "labels", doc: "Labels that every alert has besides its own, such as {severity: page}: for an Alertmanager among its labels, elsewhere in the field labels. Tables have none.", setting: true, read: labels(&r.Labels)},
		key{name: "digest", doc: "One message in this time, such as 24h, that lists the alarms in no incident; it needs incidents. With kinds: [incident] and a digest a receiver gets few messages and misses nothing. Digests begin at multiples of it on the clock of incidents.zone. By default there is none.", setting: true, read: milliseconds(&r.Digest)},
		key{name: "max_age", doc: "Alerts of observations that are older are not sent, and counted. By default 24h if the source is a topic or a query without end, else none is too old.", setting: true, read: durationOr("none", &r.MaxAge)},
	)
}

// hookKey declares a sink of alerts by HTTP.
func (s *Sink) hookKey(name, doc string) key {
	hook := &webhook.Sink{Batch: 100, Timeout: 10 * time.Second, Alertmanager: name == "alertmanager"}
	return key{name: name, doc: doc,
		seen: func() { s.Webhook = hook },
		keys: []key{
			{name: "url", doc: "A URL with http:// or https://. If the URL is secret, the place of it.", required: true, read: hookURL(&hook.URL)},
			{name: "headers", doc: "Headers of the requests, by name, such as {Authorization: {file: token}}.", read: headers(&hook.Headers)},
			{name: "batch", doc: "Largest number of alerts in one request.", read: whole(&hook.Batch, 1)},
			{name: "timeout", doc: "How long one request may take.", read: milliseconds(&hook.Timeout)},
		}}
}

func (c *Config) deadLetterKeys() []key {
	f := &File{}
	topic := &Sink{}
	kafka := topic.kafkaKey()
	seen := kafka.seen
	kafka.seen = func() {
		seen()
		c.DeadLetter = topic
	}
	return []key{
		{name: "jsonl", doc: "One JSON object per line.", seen: func() { c.DeadLetter = &Sink{JSONL: f} }, keys: []key{
			{name: "path", doc: `A file, or "-" for standard output.`, required: true, read: text(&f.Path, notEmpty)},
		}},
		kafka,
	}
}

// fields returns what the source says of its records, and the key of it.
func (s *Source) fields() (f *Fields, path string) {
	switch {
	case s.CSV != nil:
		return &s.CSV.Fields, "source.csv"
	case s.JSONL != nil:
		return &s.JSONL.Fields, "source.jsonl"
	case s.Parquet != nil:
		return &s.Parquet.Fields, "source.parquet"
	case s.Kafka != nil:
		return &s.Kafka.Fields, "source.kafka"
	}
	return &Fields{}, ""
}

// columns returns the fields of the value and the key that names them; nil for a
// source whose records bring their own shape.
func (s *Source) columns() (values []string, path string) {
	f, path := s.fields()
	if path == "" || f.Values == nil || len(f.Values) == 1 && (s.JSONL != nil || s.Kafka != nil) {
		return nil, ""
	}
	return f.Values, path + ".values"
}
