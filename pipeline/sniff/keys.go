package sniff

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"hafvf/hafvf/keyed"
	"hafvf/internal/domain"
	"hafvf/internal/message"
	"hafvf/pipeline/config"
)

// Sessions counts the sessions of keys with more than one record.
type Sessions struct {
	N, Single      int           // N is the number of sessions; Single of them have one record
	MinGap, MaxGap time.Duration // smallest and largest gap that ends a session
}

// Err returns an error if most sessions have one record.
func (res *Result) Err() error {
	if s := res.Sessions; 2*s.Single > s.N {
		return errors.New(message.SingleSessions(s.Single, s.N, s.MinGap, s.MaxGap, res.Step))
	}
	return nil
}

// A Rule is an exception in keys and the keys that it matches.
type Rule struct {
	Match string
	Keys  []string
}

// sessions counts the sessions of keys with more than one record.
func (s *sample) sessions(c keyed.SmoothConfig) {
	counts := &s.result.Sessions
	for _, observations := range s.timed {
		if len(observations) < 2 {
			continue
		}
		observations = slices.SortedStableFunc(slices.Values(observations), keyed.Observation.Compare)
		gap := cmp.Or(c.Gap, c.DefaultGap(observations))
		if counts.N == 0 || gap < counts.MinGap {
			counts.MinGap = gap
		}
		counts.MaxGap = max(counts.MaxGap, gap)
		n := 0 // records of the current session
		for i := range observations {
			if n++; i+1 == len(observations) || observations[i+1].Time.Sub(observations[i].Time) >= gap {
				if counts.N++; n == 1 {
					counts.Single++
				}
				n = 0
			}
		}
	}
}

// rules records which keys each exception matches. It adds a remark on keys for which a later exception than the
// first match sets a field of the filter.
func (s *sample) rules(c *config.Config) {
	res := s.result
	for _, k := range c.Keys {
		rule := Rule{Match: k.Match}
		for _, key := range res.Keys {
			if domain.Matches(k.Match, key) {
				rule.Keys = append(rule.Keys, key)
			}
		}
		res.Rules = append(res.Rules, rule)
	}
	var keys, names []string
	setLater := c.SetLater()
	for _, key := range res.Keys {
		if later := setLater(key); len(later) > 0 {
			keys, names = append(keys, key), append(names, later...)
		}
	}
	if len(keys) > 0 {
		slices.Sort(names)
		res.Remarks.add(false, "keys", "%s of %s: set by a later exception than the first that matches. Each field uses the first exception that sets it; earlier versions used the first match for all fields", message.List(slices.Compact(names)), message.Some(keys, 4))
	}
}
