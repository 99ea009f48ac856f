package hafvf

import (
	"errors"
	"fmt"

	"hafvf/hafvf/expfam"
	"hafvf/hafvf/usual"
	"hafvf/internal/domain"
)

// Config describes a filter, or a bank of filters, as data that can be sent to another process. Its JSON form
// is stable. Only Family is required; all other fields have defaults.
type Config struct {
	Family string `json:"family"`
	Prior  Params `json:"prior,omitempty"`
	Dim    int    `json:"dim,omitempty"` // length of an observation, if the prior does not determine it
	// Member configures the filter. If Member is nil and Bank is empty, the family's default members apply.
	Member *Member `json:"member,omitempty"`

	Bank       []Member `json:"bank,omitempty"`            // replaces Member, see DefaultBank
	Forgetting float64  `json:"bank_forgetting,omitempty"` // of the bank's shares; 0 means DefaultForgetting
	Detect     *Detect  `json:"detect,omitempty"`          // nil: no detection

	// WarmUp is the number of first observations that set the prior, see expfam.Fitted. Prior then holds only
	// parameters without a scale, such as an order. 0 means that Prior is the prior. A bank does not fit its
	// prior itself; package keyed does.
	WarmUp int `json:"warm_up,omitempty"`

	// Season means that the values of the bank have their season removed, see usual.RhythmConfig. A bank does
	// not remove the season itself; package keyed does. Nil means no season.
	Season *usual.RhythmConfig `json:"season,omitempty"`

	// Scale is the scale of the bank's values. A bank does not transform values itself; package keyed does. The
	// empty Scale is Linear.
	Scale Scale `json:"scale,omitempty"`
}

// DefaultMember returns the filter of the paper: two levels, which learn the weight and the forgetting of the
// weight.
func DefaultMember() Member {
	return Member{Levels: []Beta{{.9, .1}, {1, 1}}, Top: 1}
}

// withDefaults returns the config with the default members filled in, and with an empty Scale for Linear.
func (c Config) withDefaults() Config {
	if c.Scale.linear() {
		c.Scale = ""
	}
	if c.Member == nil && len(c.Bank) == 0 {
		if c.Bank = defaultMembers(c.Family); len(c.Bank) == 1 {
			c.Member, c.Bank = &c.Bank[0], nil
		}
	}
	return c
}

// defaultMembers returns the default filters of a family without detection. Most families have DefaultMember
// alone. bernoulli and categorical have four, because a single outcome carries little information. The first
// remembers about five outcomes and learns how fast to forget. The second hardly forgets, for rates that stay
// constant. The others remember ten and five outcomes, for rates that reverse.
func defaultMembers(family string) []Member {
	switch family {
	case "bernoulli", "categorical":
		return []Member{{Levels: []Beta{{8, 2}}, Top: 1}, {Top: .9998}, {Top: .9}, {Top: .8}}
	}
	return []Member{DefaultMember()}
}

// Members returns the filters of the configuration: Bank, or Member alone.
func (c Config) Members() []Member {
	if c = c.withDefaults(); c.Member != nil && len(c.Bank) == 0 {
		return []Member{*c.Member}
	}
	return c.Bank
}

// Filter returns the filter of Member. The error names the invalid setting. Bank, Detect, WarmUp, Season and a
// nonlinear Scale are errors.
func (c Config) Filter() (*Filter, error) {
	switch {
	case len(c.Bank) > 0:
		return nil, errors.New("bank: a single filter has no members: use NewBank")
	case c.Detect != nil:
		return nil, errors.New("detect: a single filter has no detection: use NewBank")
	case c.WarmUp != 0:
		return nil, errors.New("warm_up: a single filter has no warm-up: use NewBank")
	case c.Season != nil:
		return nil, errors.New("season: a filter does not remove a season: use package keyed")
	case !c.Scale.linear():
		return nil, errors.New("scale: a filter does not transform values: use package keyed")
	}
	if c.Member == nil {
		c.Member = new(DefaultMember())
	}
	m, err := expfam.New(c.Family, c.Prior, c.Dim)
	if err != nil {
		return nil, err
	}
	if err := c.Member.valid(""); err != nil {
		return nil, err
	}
	return NewFilter(m, c.Member.Levels, c.Member.Top), nil
}

// NewBank returns the bank of the configuration: the filters of Bank or, if it is empty, Member, or the family's default
// filters without either. NewBank does not use Season: with one, pass values without their season, and for poisson vectors
// of an exposure and a count. The error names the invalid setting.
func (c Config) NewBank() (*Bank, error) {
	c = c.withDefaults()
	m, err := expfam.New(c.Family, c.Prior, c.Dim)
	if err != nil {
		return nil, err
	}
	if e, ok := m.(expfam.Exposable); ok && c.Season != nil {
		m = e.Exposed()
	}
	members := c.Members()
	for i, member := range members {
		path := ""
		if len(c.Bank) > 0 {
			path = fmt.Sprintf("bank.%d.", i)
		}
		if err := member.valid(path); err != nil {
			return nil, err
		}
		if err := member.CheckAR(m, i); err != nil {
			return nil, fmt.Errorf("bank.%d.ar: %w", i, err)
		}
	}
	forgetting := c.Forgetting
	if forgetting == 0 {
		forgetting = DefaultForgetting
	}
	if err := domain.Forgetting.Check("bank_forgetting", forgetting); err != nil {
		return nil, err
	}
	if _, ok := m.(expfam.Fitted); c.WarmUp > 0 && !ok {
		return nil, fmt.Errorf("warm_up: %s has no location or scale that data could set", c.Family)
	}
	if c.Detect != nil {
		if err := c.Detect.valid(); err != nil {
			return nil, fmt.Errorf("detect.%w", err)
		}
	}
	if err := c.Scale.check(c.Family); err != nil {
		return nil, fmt.Errorf("scale: %w", err)
	}
	if c.Season != nil {
		if err := usual.Seasonal(c.Family); err != nil {
			return nil, fmt.Errorf("season: %w", err)
		}
		if _, err := usual.NewRhythm(*c.Season, m.Outputs()); err != nil {
			return nil, fmt.Errorf("season.%w", err)
		}
	}
	return NewBank(m, members, forgetting, c.Detect), nil
}

// valid returns an error that names the first invalid setting of the member. path is the prefix of the name.
func (m Member) valid(path string) error {
	if err := domain.Top.Check(path+"top", m.Top); err != nil {
		return err
	}
	for i, l := range m.Levels {
		if err := l.check(fmt.Sprintf("%slevels.%d", path, i)); err != nil {
			return err
		}
	}
	return nil
}

// CheckAR returns an error if member i of a bank with the given model cannot have its AR. It returns nil for AR
// 0.
func (m Member) CheckAR(model Model, i int) error {
	_, ok := expfam.NewLagged(model, 1)
	switch {
	case m.AR == 0:
	case m.AR < 0 || m.AR > expfam.MaxAR:
		return fmt.Errorf("must be from 0 to %d, not %d", expfam.MaxAR, m.AR)
	case !ok:
		return errors.New("requires the family normal")
	case i == 0:
		return errors.New("the first member must have the family's own model: put a member without ar before it")
	}
	return nil
}

// Canonical returns the part of the configuration on which states depend, with the default levels and top filled
// in, and with an empty Scale for Linear. Encoding it as JSON and decoding it restores it.
func (c Config) Canonical() Config {
	c = c.withDefaults()
	if c.Season != nil {
		// A state does not depend on holidays, so that new holidays can be added every year.
		season := *c.Season
		season.Holidays, season.Like = nil, usual.Holidays{}
		c.Season = &season
	}
	if len(c.Prior) == 0 {
		c.Prior = nil
	}
	return c
}
