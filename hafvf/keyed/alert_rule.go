package keyed

import (
	"fmt"
	"time"

	"hafvf/internal/domain"
)

// An AlertRule says which alarms the keys that match a pattern raise. A nil field sets nothing. Each
// field is that of the first rule that matches the key and sets it, else that of Config.Alerts.
type AlertRule struct {
	Match     string // as that of Rule
	None      *bool  // the key raises no alarm and no alert of a belief: its filter and records are as without
	Cooldown  *time.Duration
	MinChange *float64
	MinAbs    *float64
	MinRel    *float64
	Direction *Direction
	Silence   *SilenceRule
}

// A SilenceRule says when keys are silent, with Config.Silence.
type SilenceRule struct {
	Never bool
	SilenceConfig
}

// Patterns are those of AlertRules and Quiet, which hold whatever other rule a key has.
func (c *Config) Patterns() (all []string) {
	for _, r := range c.AlertRules {
		all = append(all, r.Match)
	}
	for _, q := range c.Quiet {
		all = append(all, q.Match)
	}
	return all
}

// alertsOf are the settings of the alerts of a key.
func (c *Config) alertsOf(key string) *AlertConfig {
	if len(c.AlertRules) == 0 {
		return &c.Alerts
	}
	of := c.Alerts
	for i := len(c.AlertRules) - 1; i >= 0; i-- { // what the first sets is set last
		if r := &c.AlertRules[i]; domain.Matches(r.Match, key) {
			r.apply(&of)
		}
	}
	return &of
}

// silenceOf finds the silences of a key, nil without Config.Silence.
func (est *Estimator) silenceOf(key string) *silenceDetector {
	for _, r := range est.cfg.AlertRules {
		if r.Silence != nil && domain.Matches(r.Match, key) {
			of := *est.silences
			of.never, of.after = r.Silence.Never, r.Silence.After
			return &of
		}
	}
	return est.silences
}

func (r *AlertRule) apply(to *AlertConfig) {
	replace(&to.None, r.None)
	replace(&to.Cooldown, r.Cooldown)
	replace(&to.MinChange, r.MinChange)
	replace(&to.MinAbs, r.MinAbs)
	replace(&to.MinRel, r.MinRel)
	replace(&to.Direction, r.Direction)
}

func replace[T any](dst, by *T) {
	if by != nil {
		*dst = *by
	}
}

func (c *Config) validateAlertRules() error {
	for i, r := range c.AlertRules {
		if err := domain.CheckPattern(r.Match); err != nil {
			return fmt.Errorf("AlertRules[%d].Match: %w", i, err)
		}
		of := c.Alerts
		r.apply(&of)
		if r.Silence != nil && (c.Silence == nil || r.Silence.After < 0) {
			return fmt.Errorf("AlertRules[%d].Silence: needs Config.Silence, and a bound that is not negative", i)
		}
		if err := of.validate(); err != nil {
			return fmt.Errorf("AlertRules[%d]: %w", i, err)
		}
	}
	return nil
}
