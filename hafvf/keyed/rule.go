package keyed

import (
	"fmt"
	"slices"
	"sync"

	"hafvf/hafvf"
	"hafvf/internal/domain"
)

// A Rule says what of the filter is different for the keys that match a pattern. Each part is that of the first rule that
// matches the key and sets it, else that of Config.Filter.
type Rule struct {
	Match  string // as in path.Match, but * and ? match slashes too; or a pattern of domain.LabelPattern
	Filter hafvf.Config
	// Sets are the parts of Filter that the rule sets. Default: all that no rule before it has set.
	Sets []FilterPart `json:",omitempty"`
}

// A FilterPart is what a rule may set of a filter by itself.
type FilterPart string

// The parts of a filter.
const (
	PriorPart    FilterPart = "prior" // Prior and WarmUp
	SeasonPart   FilterPart = "season"
	ZonePart     FilterPart = "zone"     // of the season
	HolidaysPart FilterPart = "holidays" // of the season, that it does not learn
	BankPart     FilterPart = "bank"     // Member, Bank and Forgetting
)

// Matches reports whether the rule is for the key.
func (r Rule) Matches(key string) bool { return domain.Matches(r.Match, key) }

// apply sets the parts of the rule. Those that an earlier rule sets are applied later.
func (r *Rule) apply(to *hafvf.Config) {
	if r.Sets == nil {
		*to = r.Filter
		return
	}
	for _, part := range r.Sets {
		switch of := &r.Filter; part {
		case PriorPart:
			to.Prior, to.WarmUp = of.Prior, of.WarmUp
		case BankPart:
			to.Member, to.Bank, to.Forgetting = of.Member, of.Bank, of.Forgetting
		case SeasonPart, ZonePart, HolidaysPart:
			if of.Season == nil || to.Season == nil {
				if part == SeasonPart {
					to.Season = of.Season
				}
				continue
			}
			s := *to.Season
			switch part {
			case SeasonPart:
				s.Seasons = of.Season.Seasons
			case ZonePart:
				s.Zone = of.Season.Zone
			case HolidaysPart:
				s.Holidays = of.Season.Holidays
			}
			to.Season = &s
		}
	}
}

// Of returns the configuration of one key, in which rules are no more.
func (c Config) Of(key string) Config {
	c = c.withDefaults()
	patterns := c.rulePatterns()
	return c.with(func(i int) bool { return domain.Matches(patterns[i], key) })
}

// with applies the rules that match, by their positions in rulePatterns. c has its defaults.
func (c Config) with(matches func(i int) bool) Config {
	alarms := *c.Alarms
	for i, r := range slices.Backward(c.Keys) { // what the first sets is set last
		if matches(i) {
			r.apply(&c.Filter)
		}
	}
	for i, r := range slices.Backward(c.AlertRules) {
		if matches(len(c.Keys) + i) {
			r.apply(&alarms, &c.Alerts, &c.Silence)
		}
	}
	c.Keys, c.AlertRules, c.Alarms = nil, nil, &alarms
	return c
}

// rulePatterns are the patterns of Keys and of AlertRules.
func (c *Config) rulePatterns() (all []string) {
	for _, r := range c.Keys {
		all = append(all, r.Match)
	}
	for _, r := range c.AlertRules {
		all = append(all, r.Match)
	}
	return all
}

// Patterns are those of all rules and quiet times.
func (c *Config) Patterns() []string {
	all := c.rulePatterns()
	for _, q := range c.Quiet {
		all = append(all, q.Match)
	}
	return all
}

func checkRules(base hafvf.Config, rules []Rule) error {
	for i, r := range rules {
		if err := domain.CheckPattern(r.Match); err != nil {
			return fmt.Errorf("Keys[%d].Match: %w", i, err)
		}
		switch r.Filter.Family {
		case base.Family:
		case "":
			return fmt.Errorf("Keys[%d].Filter has no Family: it needs all settings of its filter, and the family of all other keys, %s", i, base.Family)
		default:
			return fmt.Errorf("Keys[%d].Filter has the family %s, and all other keys have %s", i, r.Filter.Family, base.Family)
		}
	}
	return nil
}

// byRules holds what is made of the configurations of keys: one value for all that match the same rules.
type byRules[T any] struct {
	cfg      Config
	of       func(Config) (T, error)
	patterns []string
	none     T // of keys that match no rule

	mu  sync.Mutex
	all map[string]T // by whether each rule matches
	set []byte       // scratch
}

// newByRules makes the values of keys that match no rule, one, and two of which the first does not set all that the second
// does: the error says what is wrong with one. c has its defaults.
func newByRules[T any](c Config, of func(Config) (T, error)) (*byRules[T], error) {
	b := &byRules[T]{cfg: c, of: of, patterns: c.rulePatterns(), all: map[string]T{}}
	b.set = make([]byte, len(b.patterns))
	var err error
	if b.none, err = b.value(); err != nil {
		return nil, err
	}
	for i := range c.Keys {
		for j := range i + 1 {
			first, second := &c.Keys[j], &c.Keys[i]
			alone := first.Sets == nil || slices.Equal(first.Sets, second.Sets) // counts for a key of both
			if i != j && (alone || !domain.MayMeet(first.Match, second.Match)) {
				continue
			}
			if _, err := b.value(i, j); err != nil {
				return nil, fmt.Errorf("rule %d of Keys: %w", i, err)
			}
		}
	}
	return b, nil
}

// value makes, or finds, the value of keys that match those rules.
func (b *byRules[T]) value(rules ...int) (v T, err error) {
	clear(b.set)
	for _, i := range rules {
		b.set[i] = 1
	}
	return b.ofSet()
}

func (b *byRules[T]) ofSet() (v T, err error) {
	v, known := b.all[string(b.set)]
	if !known {
		if v, err = b.of(b.cfg.with(func(i int) bool { return b.set[i] != 0 })); err == nil {
			b.all[string(b.set)] = v
		}
	}
	return v, err
}

// ofKey is the value of a key.
func (b *byRules[T]) ofKey(key string) T {
	if len(b.patterns) == 0 {
		return b.none
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, pattern := range b.patterns {
		b.set[i] = 0
		if domain.Matches(pattern, key) {
			b.set[i] = 1
		}
	}
	return checked(b.ofSet())
}
