package keyed

import (
	"cmp"
	"fmt"
	"time"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/internal/domain"
	"hafvf/internal/message"
)

// Config configures the filters, the order and the alarms of all keys.
type Config struct {
	// Filter needs a Family; other fields have defaults.
	Filter hafvf.Config
	// Keys are exceptions to Filter for matching keys, part by part. They must have the family and dimension of Filter.
	Keys     []Rule
	Order    Order         // default EventTime
	Lateness time.Duration // for EventTime, at least 0; default 0: a key's observations are in order
	// Aggregate combines events into the observations of intervals. The input of a KeyState is then events. Aggregate
	// needs EventTime. Nil: the input is observations.
	Aggregate *AggregateConfig
	// TimeUnit applies the weight of memory once per unit of time between observations. Default 0: once per
	// observation.
	TimeUnit time.Duration
	// Interval adds the central predictive interval of this probability, in (0, 1), to every estimate. Default 0: none.
	Interval float64
	// OmitPosterior leaves out Estimate.Posterior. Estimate.ELBO is then NaN or a lower bound of its value.
	OmitPosterior bool         `json:"Brief"`
	Alarms        *AlarmConfig // for detection; its budget also pays for silences. Nil: DefaultAlarms
	Alerts        AlertConfig  // for detection
	// AlertRules are exceptions to Alarms, Alerts and Silence for matching keys, field by field. The meaning of stored
	// states does not depend on them.
	AlertRules []AlertRule
	// Lookback is how long the source repeats a value if it has no newer one, as range queries of Prometheus do. The
	// alarm for equal values in a row ignores a value that is less than Lookback after the first of these equal values.
	// A state can be used with another Lookback. Lookback has no effect on observations without times. Default 0: the
	// source repeats no value.
	Lookback time.Duration
	// Values names the numbers of an observation, for the messages of alerts. Default: x.
	Values []string
	// Metric names the quantity that a key's value measures, for the messages of alerts. It is used if neither Values
	// nor the key names it, as with the series {job="api"}. Default: none.
	Metric string
	// Unit follows the values in messages. A unit such as /s is appended to the unit of the value's name, which is
	// recognized by its suffix: _seconds, _ms, _bytes, _ratio, _percent or _celsius. Default: the unit of the name.
	Unit string
	// OmitToday omits the date of today's times in messages. It is for live input: messages depend on the time of the
	// run. Default: messages have dates.
	OmitToday bool
	// Silence reports keys that have been silent for too long. Nil: silences are not reported.
	Silence *SilenceConfig
	// Expire resets a key that has had no observation for this duration: the next observation counts as its first. With
	// Aggregate, the duration starts at the start of the interval of the last event. Expire needs EventTime, and must
	// be longer than Lateness and than an interval. Default 0: never.
	Expire time.Duration
	// Quiet are time ranges in which matching keys neither learn nor raise alarms.
	Quiet []QuietTime
	// NameKeys makes errors about states of other settings name the keys of the program's config instead of the fields
	// of Config.
	NameKeys bool
}

// DefaultWarmUp is the number of first observations from which Recommended sets the prior.
const DefaultWarmUp = 50

// Recommended returns the configuration to start with. A key's first observations set its prior; the families bernoulli
// and categorical have no scale and use their default prior. A bank of filters follows the key, and unusual
// observations raise alarms within a budget. The configuration equals the program's with prior: auto and detect: true,
// and reads its states. Set Filter.Dim if observations are vectors: regression and mvnormal need it. categorical needs
// the parameter alpha of Filter.Prior.
func Recommended(family string) Config {
	return Config{
		Filter: hafvf.Config{
			Family: family, Bank: hafvf.DefaultBankFor(family), Forgetting: hafvf.DefaultForgetting, Detect: new(hafvf.DefaultDetect()), WarmUp: defaultWarmUp(family),
		},
		Order: EventTime, Alarms: new(DefaultAlarms()), Alerts: AlertConfig{Direction: Both},
	}
}

// defaultWarmUp returns DefaultWarmUp if first observations can set the prior of the family, else 0.
func defaultWarmUp(family string) int {
	for _, dim := range []int{0, 2} { // 2 for families of vectors
		if m, err := expfam.New(family, nil, dim); err == nil {
			if _, ok := m.(expfam.Fitted); ok {
				return DefaultWarmUp
			}
		}
	}
	return 0
}

func (c Config) withDefaults() Config {
	c.Order = cmp.Or(c.Order, EventTime)
	c.Alarms = cmp.Or(c.Alarms, new(DefaultAlarms()))
	return c
}

// validate returns an error that describes the first invalid field. c must have its defaults.
func (c Config) validate() error {
	switch {
	case c.Order != EventTime && c.Order != Arrival:
		return fmt.Errorf("order %q is neither %q nor %q", c.Order, EventTime, Arrival)
	case c.Lateness < 0:
		return fmt.Errorf("lateness %v is negative", c.Lateness)
	case c.Lookback < 0:
		return fmt.Errorf("lookback %v is negative", c.Lookback)
	case c.TimeUnit < 0:
		return fmt.Errorf("time unit %v is negative", c.TimeUnit)
	case c.Interval != 0 && !domain.Interval.Contains(c.Interval):
		return fmt.Errorf("interval must be %s, not %g", domain.Interval.Name, c.Interval)
	}
	for _, part := range [...]struct {
		name string
		err  error
	}{
		{"aggregate", c.Aggregate.validate(c.Order)}, {"alarms", c.Alarms.validate()}, {"silence", c.Silence.validate(c.Order)},
		{"expire", c.CheckExpire()}, {"alerts", c.Alerts.validate()},
	} {
		if part.err != nil {
			return fmt.Errorf("%s: %w", part.name, part.err)
		}
	}
	for i := range c.Quiet {
		if err := c.Quiet[i].validate(); err != nil {
			return fmt.Errorf("quiet %d: %w", i, err)
		}
	}
	return cmp.Or(c.validateAlertRules(), checkRules(c.Filter, c.Keys))
}

// CheckExpire returns an error if Expire is invalid. 0 is valid and disables it.
func (c *Config) CheckExpire() error {
	switch {
	case c.Expire < 0:
		return fmt.Errorf("%v is negative", c.Expire)
	case c.Expire == 0:
		return nil
	case c.Order != EventTime:
		return c.Order.CheckTimes()
	case c.Expire <= c.Lateness:
		return fmt.Errorf("%s is not longer than lateness", message.Duration(c.Expire))
	case c.Aggregate != nil && c.Expire <= c.Aggregate.Every:
		return fmt.Errorf("%s is not longer than aggregate.every", message.Duration(c.Expire))
	}
	return nil
}
