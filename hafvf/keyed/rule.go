package keyed

import (
	"encoding/binary"
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

// Of returns the configuration of one key, without rules.
func (c Config) Of(key string) Config {
	c = c.withDefaults()
	return c.with(domain.NewPatterns(c.rulePatterns()).Matching(nil, key))
}

// with applies rules, given by their positions in rulePatterns, which ascend. c has its defaults.
func (c Config) with(rules []int) Config {
	alarms := *c.Alarms
	for _, i := range slices.Backward(rules) { // so that the first rule that sets a part wins
		if i < len(c.Keys) {
			c.Keys[i].apply(&c.Filter)
		} else {
			c.AlertRules[i-len(c.Keys)].apply(&alarms, &c.Alerts, &c.Silence)
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

// byRules holds what is made of the configurations of keys: one value for all keys that match the same rules.
type byRules[T any] struct {
	cfg      Config
	of       func(Config) (T, error)
	patterns *domain.Patterns // as of rulePatterns
	none     T                // of keys that match no rule

	mu  sync.Mutex
	all map[string]T // by the positions of the rules that match
}

// newByRules makes the values of keys that match no rule, one rule, or two rules of which the first does not set all that
// the second sets. It returns an error if one of these values cannot be made. c has its defaults.
func newByRules[T any](c Config, of func(Config) (T, error)) (*byRules[T], error) {
	b := &byRules[T]{cfg: c, of: of, patterns: domain.NewPatterns(c.rulePatterns()), all: map[string]T{}}
	var err error
	if b.none, err = b.value(nil); err != nil {
		return nil, err
	}
	for i := range c.Keys {
		if _, err := b.value([]int{i}); err != nil {
			return nil, fmt.Errorf("rule %d of Keys: %w", i, err)
		}
		for _, j := range b.patterns.Meeting(c.Keys[i].Match) {
			if j >= i {
				break
			}
			if first := &c.Keys[j]; first.Sets == nil || slices.Equal(first.Sets, c.Keys[i].Sets) {
				continue // the first counts for a key of both
			}
			if _, err := b.value([]int{j, i}); err != nil {
				return nil, fmt.Errorf("rule %d of Keys: %w", i, err)
			}
		}
	}
	return b, nil
}

// value makes, or finds, the value of keys that match the rules at the given positions, which ascend.
func (b *byRules[T]) value(rules []int) (v T, err error) {
	name := make([]byte, 0, 16)
	for _, i := range rules {
		name = binary.AppendUvarint(name, uint64(i))
	}
	v, known := b.all[string(name)]
	if !known {
		if v, err = b.of(b.cfg.with(rules)); err == nil {
			b.all[string(name)] = v
		}
	}
	return v, err
}

// ofKey returns the value of a key.
func (b *byRules[T]) ofKey(key string) T {
	var buffer [8]int
	rules := b.patterns.Matching(buffer[:0], key)
	if len(rules) == 0 {
		return b.none
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return checked(b.value(rules))
}
