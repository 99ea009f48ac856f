package transforms

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"hafvf/hafvf/keyed"
	"hafvf/internal/compact"
)

// A sessionRevision has the observations of one session of a key, sorted by time, until a smoother gets them.
type sessionRevision struct {
	Observations []keyed.Observation
	// Revision is the number of times that the session was emitted before, with fewer observations. Earlier has the
	// sessions that it replaces.
	Revision int64
	Earlier  []sessionRevision
}

// A sessionKey identifies a session of observations without times. The runner groups by it.
type sessionKey string

// sessionKeyOf returns the sessionKey of an observation of the key.
func sessionKeyOf(key string, o *keyed.Observation) sessionKey {
	return sessionKey(strconv.Itoa(len(key)) + "/" + key + o.Session)
}

// Key returns the key of the session's observations.
func (k sessionKey) Key() string {
	length, rest, _ := strings.Cut(string(k), "/")
	n, err := strconv.Atoi(length)
	if err != nil || n > len(rest) {
		panic("transforms: not a session key: " + string(k))
	}
	return rest[:n]
}

// Start returns the time of the first observation.
func (s *sessionRevision) Start() time.Time { return s.Observations[0].Time }

// End returns the time of the last observation.
func (s *sessionRevision) End() time.Time { return s.Observations[len(s.Observations)-1].Time }

// Join adds those stored sessions to s that no gap separates from s: s is then their next revision. It returns the
// other stored sessions.
func (s *sessionRevision) Join(stored []sessionRevision, gap time.Duration) (rest []sessionRevision) {
	for _, earlier := range stored {
		if !keyed.InOneSession(earlier.End(), s.Start(), gap) || !keyed.InOneSession(s.End(), earlier.Start(), gap) {
			rest = append(rest, earlier)
			continue
		}
		s.Revision = max(s.Revision, earlier.Revision+1)
		s.Earlier = append(s.Earlier, earlier)
		// Equal times keep their order: observations of the earlier revision come first.
		s.Observations = slices.Concat(earlier.Observations, s.Observations)
		slices.SortStableFunc(s.Observations, keyed.Observation.Compare)
	}
	return rest
}

func sessionForm(c *compact.Codec, s *sessionRevision) {
	compact.List(c, &s.Earlier, 1, func(e *sessionRevision) {
		text := compact.Encode(nil, *e, revisionForm)
		compact.Texts(c, &text)
		c.Check(c.Writes || compact.Decode(text, e, revisionForm) == nil)
	})
	revisionForm(c, s)
}

// revisionForm encodes or decodes a session without its earlier ones. It decodes all bytes that are left.
func revisionForm(c *compact.Codec, s *sessionRevision) {
	compact.Unsigned(c, &s.Revision)
	if c.Writes {
		for i := range s.Observations {
			c.B, _ = s.Observations[i].AppendBinary(c.B)
		}
		return
	}
	var err error
	s.Observations, err = appendObservations(nil, c.B)
	c.B = nil
	c.Check(err == nil && len(s.Observations) > 0)
}

// appendObservations appends the encoded observations in b to dst.
func appendObservations(dst []keyed.Observation, b []byte) ([]keyed.Observation, error) {
	for in := keyed.ReadObservations(b, ""); in.More(); {
		o, err := in.Next(nil)
		if err != nil {
			return dst, err
		}
		dst = append(dst, o)
	}
	return dst, nil
}
