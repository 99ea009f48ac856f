package hafvf

import (
	"errors"
	"fmt"

	"hafvf/hafvf/expfam"
	"hafvf/hafvf/usual"
	"hafvf/internal/domain"
)

// Config describes a filter, or a bank of filters, as data that can be sent to
// another process. Its JSON form is stable. Family alone is enough: the rest has
// defaults.
type Config struct {
	Family string `json:"family"`
	Prior  Params `json:"prior,omitempty"`
	Dim    int    `json:"dim,omitempty"` // only where the prior leaves it open
	// Member is the filter. If it is nil and there is no Bank, Members are the filters of the family.
	Member *Member `json:"member,omitempty"`

	Bank       []Member `json:"bank,omitempty"`            // in place of Member, see DefaultBank
	Forgetting float64  `json:"bank_forgetting,omitempty"` // of the bank's shares; zero stands for DefaultForgetting
	Detect     *Detect  `json:"detect,omitempty"`          // nil: no detection

	// WarmUp is the number of a stream's first observations that set the prior, see
	// Fitted. Prior then gives only parameters without a scale, such as an order.
	// Zero: the prior is as given.
	WarmUp int `json:"warm_up,omitempty"`

	// Season makes the bank one of the values less their season, see Rhythm. A bank
	// does not take the season out by itself; package keyed does. Nil: there is
	// none.
	Season *usual.RhythmConfig `json:"season,omitempty"`

	// Scale makes the bank one of the values on that scale. A bank does not scale
	// values itself; package keyed does. The empty one is Linear.
	Scale Scale `json:"scale,omitempty"`
}

// DefaultMember is the filter of the paper: two levels, weight and forgetting of
// the weight both learned.
func DefaultMember() Member {
	return Member{Levels: []Beta{{.9, .1}, {1, 1}}, Top: 1}
}

// withDefaults returns the config with the default levels and scale, where it has those.
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

// defaultMembers are the filters of a family without detection: DefaultMember, and for single outcomes,
// of which each tells little, four. The first remembers about five and learns how fast to forget. The second
// hardly forgets: it is for rates that stay. The others remember ten and five, for rates that reverse.
func defaultMembers(family string) []Member {
	switch family {
	case "bernoulli", "categorical":
		return []Member{{Levels: []Beta{{8, 2}}, Top: 1}, {Top: .9998}, {Top: .9}, {Top: .8}}
	}
	return []Member{DefaultMember()}
}

// Members are the filters of the configuration: those of Bank, or Member alone.
func (c Config) Members() []Member {
	if c = c.withDefaults(); c.Member != nil && len(c.Bank) == 0 {
		return []Member{*c.Member}
	}
	return c.Bank
}

// Filter makes the filter of Member. An error names what is wrong, also
// Bank, Detect and WarmUp, which take NewBank.
func (c Config) Filter() (*Filter, error) {
	switch {
	case len(c.Bank) > 0:
		return nil, errors.New("bank: one filter has none; NewBank makes it")
	case c.Detect != nil:
		return nil, errors.New("detect: one filter has none; NewBank makes it")
	case c.WarmUp != 0:
		return nil, errors.New("warm_up: one filter has none; NewBank makes it")
	case c.Season != nil:
		return nil, errors.New("season: one filter has none; package keyed takes it out")
	case !c.Scale.linear():
		return nil, errors.New("scale: one filter has none; package keyed scales")
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

// NewBank makes the bank: of Member alone if Bank is empty. With a Season
// it is the bank of the values less their season. An error names what is wrong.
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
		at := ""
		if len(c.Bank) > 0 {
			at = fmt.Sprintf("bank.%d.", i)
		}
		if err := member.valid(at); err != nil {
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

// valid names, under the path at, what is wrong with the member.
func (m Member) valid(at string) error {
	if err := domain.Top.Check(at+"top", m.Top); err != nil {
		return err
	}
	for i, l := range m.Levels {
		if err := l.check(fmt.Sprintf("%slevels.%d", at, i)); err != nil {
			return err
		}
	}
	return nil
}

// CheckAR says why member i of a bank of that model cannot have its AR.
func (m Member) CheckAR(model Model, i int) error {
	_, ok := expfam.NewLagged(model, 1)
	switch {
	case m.AR == 0:
	case m.AR < 0 || m.AR > expfam.MaxAR:
		return fmt.Errorf("must be from 0 to %d, not %d", expfam.MaxAR, m.AR)
	case !ok:
		return errors.New("is for the family normal alone")
	case i == 0:
		return errors.New("the first member has the family's own model; put another before it")
	}
	return nil
}

// Canonical returns the part of the configuration that states depend on, with the values
// that defaults of levels and top stand for. Its JSON form gives it back.
func (c Config) Canonical() Config {
	c = c.withDefaults()
	if c.Season != nil {
		// A state does not depend on holidays: new ones can be named as the years go by.
		season := *c.Season
		season.Holidays, season.Like = nil, usual.Holidays{}
		c.Season = &season
	}
	if len(c.Prior) == 0 {
		c.Prior = nil
	}
	return c
}
