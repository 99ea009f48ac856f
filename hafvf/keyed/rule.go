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
func (r *Rule) apply(dst *hafvf.Config) {
	if r.Sets == nil {
		*dst = r.Filter
		return
	}
	for _, part := range r.Sets {
		switch src := &r.Filter; part {
		case PriorPart:
			dst.Prior, dst.WarmUp = src.Prior, src.WarmUp
		case BankPart:
			dst.Member, dst.Bank, dst.Forgetting = src.Member, src.Bank, src.Forgetting
		case SeasonPart, ZonePart, HolidaysPart:
			if src.Season == nil || dst.Season == nil {
				if part == SeasonPart {
					dst.Season = src.Season
				}
				continue
			}
			s := *dst.Season
			switch part {
			case SeasonPart:
				s.Seasons = src.Season.Seasons
			case ZonePart:
				s.Zone = src.Season.Zone
			case HolidaysPart:
				s.Holidays = src.Season.Holidays
			}
			dst.Season = &s
		}
	}
}

// Of returns the configuration of one key, without rules.
func (c Config) Of(key string) Config {
	c = c.withDefaults()
	return c.withRules(domain.NewPatterns(c.rulePatterns()).Matching(nil, key))
}

// with applies rules, given by their positions in rulePatterns, which ascend. c has its defaults.
func (c Config) withRules(rules []int) Config {
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
func (c *Config) rulePatterns() (patterns []string) {
	for _, r := range c.Keys {
		patterns = append(patterns, r.Match)
	}
	for _, r := range c.AlertRules {
		patterns = append(patterns, r.Match)
	}
	return patterns
}

// Patterns are those of all rules and quiet times.
func (c *Config) Patterns() []string {
	patterns := c.rulePatterns()
	for _, q := range c.Quiet {
		patterns = append(patterns, q.Match)
	}
	return patterns
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
	build    func(Config) (T, error)
	patterns *domain.Patterns // as of rulePatterns
	noRule   T                // of keys that match no rule

	mu     sync.Mutex
	values map[string]T // by the positions of the rules that match
}

// newByRules makes the values of keys that match no rule, one rule, or two rules of which the first does not set all that
// the second sets. It returns an error if one of these values cannot be made. c has its defaults.
func newByRules[T any](c Config, build func(Config) (T, error)) (*byRules[T], error) {
	b := &byRules[T]{cfg: c, build: build, patterns: domain.NewPatterns(c.rulePatterns()), values: map[string]T{}}
	var err error
	if b.noRule, err = b.value(nil); err != nil {
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
	id := make([]byte, 0, 16)
	for _, i := range rules {
		id = binary.AppendUvarint(id, uint64(i))
	}
	v, known := b.values[string(id)]
	if !known {
		if v, err = b.build(b.cfg.withRules(rules)); err == nil {
			b.values[string(id)] = v
		}
	}
	return v, err
}

// ofKey returns the value of a key.
func (b *byRules[T]) ofKey(key string) T {
	var buffer [8]int
	rules := b.patterns.Matching(buffer[:0], key)
	if len(rules) == 0 {
		return b.noRule
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return checked(b.value(rules))
}
