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

// Config says how keys are filtered.
type Config struct {
	// Filter needs a Family; the rest has defaults.
	Filter hafvf.Config
	// Keys are exceptions to Filter, part by part. Family and dimension are those of Filter.
	Keys     []Rule
	Order    Order         // default EventTime
	Lateness time.Duration // of EventTime, at least 0; default 0: a key's observations are in order
	// Aggregate makes the observations of intervals from events, which is what a KeyState takes
	// then. It needs EventTime. Nil: what comes are observations.
	Aggregate *AggregateConfig
	// TimeUnit makes the weight of memory act once per unit of time between
	// observations. Default 0: once per observation.
	TimeUnit time.Duration
	// Interval adds the central predictive interval of this probability, in (0, 1), to
	// every estimate. Default 0: none.
	Interval float64
	// Brief leaves out Estimate.Posterior. Estimate.ELBO is NaN then, or a lower bound of what it is.
	Brief  bool
	Alarms *AlarmConfig // with detection; its budget is that of silence too. Nil: DefaultAlarms
	Alerts AlertConfig  // with detection
	// AlertRules are exceptions to Alarms, Alerts and Silence, field by field. They do not change what the states of
	// keys mean.
	AlertRules []AlertRule
	// Lookback is for how long the source gives a value again while it has no newer one, as range
	// queries of Prometheus do. A value that is less than that after the first one equal to it does
	// not count for the alarm about equal values in a row. A state goes on under another lookback.
	// Observations without times have none. Default 0: all values are the source's own.
	Lookback time.Duration
	// Values names the numbers of an observation, for the messages of alerts. Default: x.
	Values []string
	// Metric names what the value of a key measures, for the messages of alerts, if neither Values nor
	// the key does, as that of the series {job="api"}. Default: none.
	Metric string
	// Unit stands behind the values in messages. One such as /s stands behind what the name of the value
	// ends with: _seconds, _ms, _bytes, _ratio, _percent or _celsius. Default: that.
	Unit string
	// Silence tells of keys that have been silent for too long. Nil: it does not.
	Silence *SilenceConfig
	// Expire is after how long without an observation a key is forgotten: its next one is its
	// first. With Aggregate it counts from the beginning of the interval of the last event. It
	// needs EventTime, and is longer than Lateness and an interval. Default 0: never.
	Expire time.Duration
	// Quiet are times of some keys in which nothing is learned or told.
	Quiet []QuietTime
	// NameKeys has errors about states of other settings name the keys of the program's config, and not the
	// fields of this one.
	NameKeys bool
}

// DefaultWarmUp is the number of first observations that Recommended takes for a prior.
const DefaultWarmUp = 50

// Recommended is the configuration to begin with: a key's first observations set its prior
// (of the families bernoulli and categorical, whose values have no scale, the prior is the
// family's own), a bank of filters follows it, and what is unusual for the key raises alarms
// within a budget. It is that of a config of the program with prior: auto and detect: true,
// and reads its states. Set Filter.Dim where observations are vectors; a regression and a
// mvnormal need it, and a categorical needs the parameter alpha of Filter.Prior.
func Recommended(family string) Config {
	return Config{
		Filter: hafvf.Config{
			Family: family, Bank: hafvf.DefaultBankOf(family), Forgetting: hafvf.DefaultForgetting, Detect: new(hafvf.DefaultDetect()), WarmUp: defaultWarmUp(family),
		},
		Order: EventTime, Alarms: new(DefaultAlarms()), Alerts: AlertConfig{Direction: Both},
	}
}

// defaultWarmUp is DefaultWarmUp of a family that first observations can set the prior of, else 0.
func defaultWarmUp(family string) int {
	for _, dim := range []int{0, 2} { // of vectors there are two
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

// validate says what is wrong with a configuration that has its defaults.
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

// CheckExpire says why keys cannot be forgotten after Expire; 0 forgets none.
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
