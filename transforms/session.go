package transforms

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"hafvf/hafvf/keyed"
	"hafvf/internal/compact"
)

// sessionRevision are the observations of one session of a key, by time, as they are held until a
// smoother gets them.
type sessionRevision struct {
	Observations []keyed.Observation
	// Revision is how often the session was emitted before, with less in it, and Earlier are
	// the sessions that it takes the place of.
	Revision int64
	Earlier  []sessionRevision
}

// A sessionKey names the session of observations without times, for those who group by it.
type sessionKey string

// sessionKeyOf returns the group of an observation of the key.
func sessionKeyOf(key string, o *keyed.Observation) sessionKey {
	return sessionKey(strconv.Itoa(len(key)) + "/" + key + o.Session)
}

// Key is that of the group's observations.
func (g sessionKey) Key() string {
	length, rest, _ := strings.Cut(string(g), "/")
	n, err := strconv.Atoi(length)
	if err != nil || n > len(rest) {
		panic("transforms: not a group: " + string(g))
	}
	return rest[:n]
}

// splitSessions sorts observations of a key, and divides them into sessions at every gap. It counts
// in whole milliseconds, as Beam does. With a gap of zero they are one session.
func splitSessions(observations []keyed.Observation, gap time.Duration) (sessions []sessionRevision) {
	slices.SortStableFunc(observations, keyed.Observation.Compare)
	from := 0
	for i := 1; i <= len(observations); i++ {
		if i == len(observations) || !joins(observations[i-1].Time, observations[i].Time, gap) {
			sessions = append(sessions, sessionRevision{Observations: observations[from:i]})
			from = i
		}
	}
	return sessions
}

// joins reports whether b is less than a gap after a, or gaps mean nothing.
func joins(a, b time.Time, gap time.Duration) bool {
	return gap == 0 || b.UnixMilli() < a.UnixMilli()+gap.Milliseconds()
}

// Start is the time of the first observation.
func (g *sessionRevision) Start() time.Time { return g.Observations[0].Time }

// End is the time of the last observation.
func (g *sessionRevision) End() time.Time { return g.Observations[len(g.Observations)-1].Time }

// Join takes sessions from those that were kept into g, if no gap lies between them: g is then
// their next revision. It returns the sessions that are left.
func (g *sessionRevision) Join(kept []sessionRevision, gap time.Duration) (rest []sessionRevision) {
	for _, k := range kept {
		if !joins(k.End(), g.Start(), gap) || !joins(g.End(), k.Start(), gap) {
			rest = append(rest, k)
			continue
		}
		g.Revision = max(g.Revision, k.Revision+1)
		g.Earlier = append(g.Earlier, k)
		// Equal times keep their order: the earlier revision's come first.
		g.Observations = slices.Concat(k.Observations, g.Observations)
		slices.SortStableFunc(g.Observations, keyed.Observation.Compare)
	}
	return rest
}

func sessionForm(c *compact.Codec, g *sessionRevision) {
	compact.List(c, &g.Earlier, 1, func(e *sessionRevision) {
		text := compact.Encode(nil, *e, revisionForm)
		compact.Texts(c, &text)
		c.Check(c.Writes || compact.Decode(text, e, revisionForm) == nil)
	})
	revisionForm(c, g)
}

// revisionForm is that of a session without the earlier ones. It takes all bytes that are left.
func revisionForm(c *compact.Codec, g *sessionRevision) {
	compact.Unsigned(c, &g.Revision)
	if c.Writes {
		for i := range g.Observations {
			c.B, _ = g.Observations[i].AppendBinary(c.B)
		}
		return
	}
	var err error
	g.Observations, err = appendObservations(nil, c.B)
	c.B = nil
	c.Check(err == nil && len(g.Observations) > 0)
}

// appendObservations appends the observations of b to all.
func appendObservations(all []keyed.Observation, b []byte) ([]keyed.Observation, error) {
	for in := keyed.ReadObservations(b, ""); in.More(); {
		o, err := in.Next(nil)
		if err != nil {
			return all, err
		}
		all = append(all, o)
	}
	return all, nil
}
