package settings

import (
	"slices"

	"go.yaml.in/yaml/v3"

	"hafvf/hafvf"
	"hafvf/hafvf/keyed"
	"hafvf/internal/domain"
	"hafvf/internal/message"
	"hafvf/pipeline/settings/keytable"
)

// aggregateKeys are the keys of an aggregation that keyed.AggregateConfig does not have.
type aggregateKeys struct{ empty, successes, trials string }

// Values of aggregate.empty.
const (
	emptyZero    = "0"
	emptyMissing = "missing"
)

func (c *Settings) aggregateKey(keys *aggregateKeys) keytable.Key {
	a := &keyed.AggregateConfig{}
	var values []string
	for _, v := range keyed.Aggregates() {
		values = append(values, string(v))
	}
	return keytable.Key{
		Name: "aggregate", Doc: "Combines events into one observation per key and interval, dated at the interval's start. An interval closes wait and lateness after its end: in a file by the times of its key, in a topic by the watermark. See GUIDE.",
		Seen: func() { c.Aggregate = a },
		Keys: []keytable.Key{
			{Name: "every", Doc: "Length of an interval, 1s to 744h. Intervals begin at multiples of it in the local time of zone: days at midnight, weeks on Mondays.", Required: true, Read: keytable.Milliseconds(&a.Every)},
			{Name: "value", Doc: "Value that is computed from the events. count and rate (per second) need no values. median to p99 are within 0.1 percent. share (binomial) sums of and to. increase is the rise of a counter (see modulus); other falls below half are restarts. A rise across empty intervals counts in proportion.", Required: true, Read: keytable.Choice((*string)(&a.Value), values...)},
			{Name: "of", Doc: "share: field of successes, such as errors.", Read: keytable.Text(&keys.successes, keytable.NotEmpty)},
			{Name: "to", Doc: "share: field of trials, such as requests.", Read: keytable.Text(&keys.trials, keytable.NotEmpty)},
			{Name: "per", Doc: "increase: unit of time, for an increase per time.", Read: keytable.Milliseconds(&a.Per)},
			{Name: "modulus", Doc: "increase: number at which the counter wraps; every fall is then a wrap. By default a fall is a wrap at 2^32 or 2^64 if the rise is then at most three times the largest of the last 20.", Read: keytable.Number(&a.Modulus, domain.Positive)},
			{Name: "empty", Doc: "Value of an interval without events.", Initial: "0 for count, sum and rate, else missing", Read: emptyOrZero(&keys.empty)},
			{Name: "wait", Doc: "How long an interval waits after its end for events, in addition to lateness.", Read: keytable.Duration(&a.Wait)},
			{Name: "zone", Doc: "Time zone in which intervals begin.", Initial: "UTC", Read: keytable.Zone(&a.Zone)},
		},
	}
}

// emptyOrZero reads 0 or missing.
func emptyOrZero(dst *string) keytable.ValueParser {
	return keytable.ValueParser{Takes: emptyZero + " or " + emptyMissing, Read: func(d *keytable.Decoder, path string, n *yaml.Node) {
		if n.Kind != yaml.ScalarNode || n.Value != emptyZero && n.Value != emptyMissing {
			d.WrongType(path, emptyZero+" or "+emptyMissing, n)
			return
		}
		*dst = n.Value
	}}
}

// aggregate completes and checks an aggregation.
func (d *Reading) aggregate(c *Settings) {
	a := c.Aggregate
	if a == nil {
		return
	}
	d.aggregateValues(c)
	a.Zero = d.aggregateInput.empty == emptyZero || d.aggregateInput.empty == "" && a.Value.EmptyIsZero()
	if a.Zone == "UTC" { // the default zone is stored as ""
		a.Zone = ""
	}
	a.Watermark, a.Unbounded = d.Source.Watermark || d.Source.Unbounded, d.Source.Unbounded
	if err := a.CheckEvery(); err != nil && a.Every != 0 && !d.Failed("aggregate.every") {
		d.Fail("aggregate.every", "%v", err)
	}
	if err := keyed.Order(c.Order).CheckIntervals(); err != nil {
		d.Fail("aggregate", "%v", err)
	}
	switch log := c.Model.Scale == hafvf.Log; {
	case a.Value == keyed.Increase && a.Zero:
		d.Fail("aggregate.empty", "must be missing: the rise of a counter in an interval without a value is unknown")
	case a.Value == keyed.Increase && log:
		d.Fail("model.scale", "an increase may be 0, which has no logarithm: scale log1p")
	case a.Zero && log:
		d.Fail("model.scale", "an interval without events is 0, which has no logarithm: scale log1p, or aggregate.empty: missing")
	}
	if c.Transform == Smooth {
		d.Refuse("aggregate.wait", "is for transform: filter; sessions have session.allowed_lateness")
		if gap := c.Session.Gap; gap != 0 && gap < a.Every {
			d.Fail("session.gap", "must be at least aggregate.every, %s: two sessions would share an interval", message.Duration(a.Every))
		}
	}
}

// aggregateValues checks which values an aggregation needs, and whether it fits the family.
func (d *Reading) aggregateValues(c *Settings) {
	const path = "aggregate.value"
	value := c.Aggregate.Value
	if value == keyed.Share {
		for _, field := range []struct{ path, name string }{{"aggregate.of", d.aggregateInput.successes}, {"aggregate.to", d.aggregateInput.trials}} {
			if field.name == "" && !d.Failed(field.path) {
				d.Fail(field.path, "missing; a share is the ratio of two fields")
			}
		}
		if d.Source.Share != nil {
			d.Source.Share(d.aggregateInput.successes, d.aggregateInput.trials)
		}
	} else {
		for _, name := range []string{"of", "to"} {
			d.Refuse("aggregate."+name, "belongs to value: share")
		}
	}
	family, per := c.Model.Family, d.Has("aggregate.per")
	switch {
	case per && value != keyed.Increase && value != "":
		d.Fail("aggregate.per", "belongs to value: %s", keyed.Increase)
	case value == "" || family == "":
	case (value == keyed.Share) != (family == "binomial") && value != keyed.Sum:
		d.Fail(path, "%s and the family binomial belong together", keyed.Share)
	case value == keyed.Rate && slices.Contains(wholeFamilies, family):
		d.Fail(path, "a rate is not a whole number: the family %s takes count", family)
	case per && family == "poisson":
		d.Fail("aggregate.per", "an increase per time is not a whole number, which the family poisson takes: leave it out")
	case value == keyed.Increase && slices.Contains([]string{"regression", "bernoulli", "categorical"}, family):
		d.Fail(path, "the values of the family %s are not counters", family)
	case value.Counts() && slices.Contains([]string{"mvnormal", "regression", "bernoulli", "categorical"}, family):
		d.Fail(path, "a %s is one number, which the family %s does not take", value, family)
	case slices.Contains(wholeFamilies, family) && !slices.Contains([]keyed.Aggregate{keyed.Count, keyed.Sum, keyed.Min, keyed.Max, keyed.Last, keyed.Increase}, value):
		d.Fail(path, "a %s is not a whole number, which the family %s takes", value, family)
	}
}

// wholeFamilies require whole numbers.
var wholeFamilies = []string{"bernoulli", "categorical", "poisson"}
