package transforms

import (
	"encoding/binary"
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

// AppendBinary appends the encoded session to b. The error is always nil.
func (g *sessionRevision) AppendBinary(b []byte) ([]byte, error) {
	b = binary.AppendUvarint(b, uint64(len(g.Earlier)))
	for _, e := range g.Earlier {
		b = compact.AppendString(b, string(e.append(nil)))
	}
	return g.append(b), nil
}

// append encodes the session without the earlier ones.
func (g *sessionRevision) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(g.Revision))
	for i := range g.Observations {
		b, _ = g.Observations[i].AppendBinary(b)
	}
	return b
}

// UnmarshalBinary decodes what AppendBinary encoded.
func (g *sessionRevision) UnmarshalBinary(b []byte) error {
	r := &compact.Reader{B: b}
	*g = sessionRevision{}
	for range r.Count(1) {
		var e sessionRevision
		if err := e.read([]byte(r.Text())); err != nil {
			return err
		}
		g.Earlier = append(g.Earlier, e)
	}
	if r.Bad {
		return compact.ErrCut
	}
	return g.read(r.B)
}

// read reads what append wrote.
func (g *sessionRevision) read(b []byte) error {
	r := &compact.Reader{B: b}
	g.Revision = int64(r.Uvarint())
	var err error
	if g.Observations, err = appendObservations(nil, r.B); err == nil && len(g.Observations) == 0 {
		err = compact.ErrCut
	}
	return err
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
