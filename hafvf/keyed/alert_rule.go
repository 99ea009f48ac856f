package keyed

import (
	"cmp"
	"fmt"
	"time"

	"hafvf/hafvf/usual"
	"hafvf/internal/domain"
)

// An AlertRule says which alarms the keys that match a pattern raise. A nil field sets nothing. Each
// field is that of the first rule that matches the key and sets it, else that of the Config.
type AlertRule struct {
	Match string // as that of Rule

	// Of AlertConfig.
	None      *bool // the key raises no alarm and no alert of a belief: its filter and records are as without
	Cooldown  *time.Duration
	MinChange *float64
	MinAbs    *float64
	MinRel    *float64
	Direction *Direction

	// Of AlarmConfig: Budget and BudgetTime are one field, as are Rest and RestTime.
	Budget     *float64
	BudgetTime *time.Duration
	Rest       *int
	RestTime   *time.Duration
	Settling   *time.Duration
	Seasons    *[]usual.Season
	Zone       *string

	Silence *SilenceConfig // with Config.Silence
}

func (r *AlertRule) apply(alarms *AlarmConfig, alerts *AlertConfig, silence **SilenceConfig) {
	replace(&alerts.None, r.None)
	replace(&alerts.Cooldown, r.Cooldown)
	replace(&alerts.MinChange, r.MinChange)
	replace(&alerts.MinAbs, r.MinAbs)
	replace(&alerts.MinRel, r.MinRel)
	replace(&alerts.Direction, r.Direction)
	if r.Budget != nil || r.BudgetTime != nil {
		alarms.Budget, alarms.BudgetTime = 0, 0
	}
	replace(&alarms.Budget, r.Budget)
	replace(&alarms.BudgetTime, r.BudgetTime)
	if r.Rest != nil || r.RestTime != nil {
		alarms.Rest, alarms.RestTime = 0, 0
	}
	replace(&alarms.Rest, r.Rest)
	replace(&alarms.RestTime, r.RestTime)
	replace(&alarms.Settling, r.Settling)
	replace(&alarms.Seasons, r.Seasons)
	replace(&alarms.Zone, r.Zone)
	*silence = cmp.Or(r.Silence, *silence)
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
		alarms, alerts, silence := *c.Alarms, c.Alerts, c.Silence
		r.apply(&alarms, &alerts, &silence)
		if r.Silence != nil && (c.Silence == nil || r.Silence.After < 0) {
			return fmt.Errorf("AlertRules[%d].Silence: needs Config.Silence, and a bound that is not negative", i)
		}
		if err := cmp.Or(alarms.validate(), alerts.validate()); err != nil {
			return fmt.Errorf("AlertRules[%d]: %w", i, err)
		}
	}
	return nil
}
