package keyed

import (
	"cmp"
	"fmt"
	"time"

	"hafvf/hafvf/usual"
	"hafvf/internal/domain"
)

// An AlertRule overrides the alarm settings of the keys that match a pattern. A nil field is not set. For each field,
// the first rule that matches the key and sets the field wins, else the Config.
type AlertRule struct {
	Match string // pattern, as in Rule.Match

	// Fields of AlertConfig.
	Disabled  *bool `json:"None"` // no alarm and no belief alert; filters and other record fields do not change
	Cooldown  *time.Duration
	MinChange *float64
	MinAbs    *float64
	MinRel    *float64
	Direction *Direction

	// Fields of AlarmConfig. Budget and BudgetTime count as one field, and so do Rest and RestTime.
	Budget     *float64
	BudgetTime *time.Duration
	Rest       *int
	RestTime   *time.Duration
	Settling   *time.Duration
	Seasons    *[]usual.Season
	Zone       *string

	Silence *SilenceConfig // needs Config.Silence
}

func (r *AlertRule) apply(alarms *AlarmConfig, alerts *AlertConfig, silence **SilenceConfig) {
	replace(&alerts.Disabled, r.Disabled)
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

func replace[T any](dst, value *T) {
	if value != nil {
		*dst = *value
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
