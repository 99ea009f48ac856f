package keyed

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"hafvf/hafvf"
	"hafvf/internal/domain"
)

// A Rule overrides parts of the filter for the keys that match a pattern. For each part, the first matching rule
// that sets it wins; else Config.Filter applies.
type Rule struct {
	Match  string // as in path.Match, but * and ? also match slashes; or a pattern of domain.LabelPattern
	Filter hafvf.Config
	// Sets lists the parts of Filter that the rule sets. If it is nil, the rule sets all parts.
	Sets []FilterPart `json:",omitempty"`
}

// A FilterPart is a part of a filter that a rule can set separately.
type FilterPart string

// The parts of a filter.
const (
	PriorPart    FilterPart = "prior" // Prior and WarmUp
	SeasonPart   FilterPart = "season"
	ZonePart     FilterPart = "zone"     // zone of the season
	HolidaysPart FilterPart = "holidays" // days that the season does not learn
	BankPart     FilterPart = "bank"     // Member, Bank and Forgetting
)

// Matches reports whether the rule applies to the key.
func (r Rule) Matches(key string) bool { return domain.Matches(r.Match, key) }

// apply copies the parts that the rule sets to dst. Call apply for earlier rules after later ones, so that they
// win.
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

// hides reports whether a later rule has no effect on a key that matches both. A later rule that removes the season has
// an effect: the season of r then keeps its own zone and holidays.
func (r *Rule) hides(later *Rule) bool {
	inherits := later.Filter.Season == nil && slices.Contains(later.Sets, SeasonPart)
	return r.Sets == nil || slices.Equal(r.Sets, later.Sets) && !inherits
}

// ForKey returns the configuration of one key, without rules.
func (c Config) ForKey(key string) Config {
	c = c.withDefaults()
	return c.withRules(domain.NewPatterns(c.rulePatterns()).Matching(nil, key))
}

// withRules returns c with the rules applied that have the given positions in rulePatterns, in ascending order. c
// has its defaults.
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

// rulePatterns returns the patterns of Keys, then the patterns of AlertRules.
func (c *Config) rulePatterns() (patterns []string) {
	for _, r := range c.Keys {
		patterns = append(patterns, r.Match)
	}
	for _, r := range c.AlertRules {
		patterns = append(patterns, r.Match)
	}
	return patterns
}

// Patterns returns the patterns of all rules and quiet times.
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

// byRules caches a value that depends on the configuration of a key: one value for all keys that match the same
// rules.
type byRules[T any] struct {
	cfg      Config
	build    func(Config) (T, error)
	patterns *domain.Patterns // of rulePatterns
	noRule   T                // value for keys that match no rule

	mu     sync.Mutex
	values map[string]T // by the positions of the matching rules, as uvarints
}

// newByRules builds the values for keys that match no rule, one rule, or two rules if the first does not set
// all parts of the second. It returns an error if build fails for one of them. Other values are built when needed.
// c has its defaults.
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
			if c.Keys[j].hides(&c.Keys[i]) {
				continue
			}
			if _, err := b.value([]int{j, i}); err != nil {
				return nil, fmt.Errorf("rule %d of Keys: %w", i, err)
			}
		}
	}
	return b, nil
}

// value returns the value for keys that match the rules at the given positions, in ascending order. It builds a
// value that is not cached.
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

// ofKey returns the value of a key. It panics if build fails.
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
