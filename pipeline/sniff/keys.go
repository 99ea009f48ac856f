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

// What a config says of keys, beside the keys that there are.

// Sessions are those of keys with more than one record.
type Sessions struct {
	N, Single            int           // Single have one record
	LeastGap, LargestGap time.Duration // that end them
}

// Err says that most sessions have one record.
func (l *Result) Err() error {
	if s := l.Sessions; 2*s.Single > s.N {
		return errors.New(message.SingleSessions(s.Single, s.N, s.LeastGap, s.LargestGap, l.Step))
	}
	return nil
}

// A Rule says how many keys an exception matches.
type Rule struct {
	Match string
	Keys  []string
}

// sessions counts the sessions of keys with more than one record.
func (s *sample) sessions(c keyed.SmoothConfig) {
	of := &s.result.Sessions
	for _, all := range s.timed {
		if len(all) < 2 {
			continue
		}
		all = slices.SortedStableFunc(slices.Values(all), keyed.Observation.Compare)
		gap := cmp.Or(c.Gap, c.GapOf(all))
		if of.N == 0 || gap < of.LeastGap {
			of.LeastGap = gap
		}
		of.LargestGap = max(of.LargestGap, gap)
		n := 0 // records of the session so far
		for i := range all {
			if n++; i+1 == len(all) || all[i+1].Time.Sub(all[i].Time) >= gap {
				if of.N++; n == 1 {
					of.Single++
				}
				n = 0
			}
		}
	}
}

// rules notes which keys the exceptions match, and for which several set the filter.
func (s *sample) rules(c *config.Config) {
	l := s.result
	for _, k := range c.Keys {
		of := Rule{Match: k.Match}
		for _, key := range l.Keys {
			if domain.Matches(k.Match, key) {
				of.Keys = append(of.Keys, key)
			}
		}
		l.Rules = append(l.Rules, of)
	}
	var keys, names []string
	setLater := c.SetLater()
	for _, key := range l.Keys {
		if later := setLater(key); len(later) > 0 {
			keys, names = append(keys, key), append(names, later...)
		}
	}
	if len(keys) > 0 {
		slices.Sort(names)
		l.Remarks.add(false, "keys", "%s of %s: set by a later exception than the first that matches. Each field goes by itself now; before, the first held whole", message.List(slices.Compact(names)), message.Some(keys, 4))
	}
}
