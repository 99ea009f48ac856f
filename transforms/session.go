package transforms

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"

	"hafvf/hafvf/keyed"
	"hafvf/internal/compact"
)

// A session holds a key's observations between two gaps, by time, and how often it
// was emitted before. Earlier are the sessions of which it is the next revision.
type session struct {
	revision     int64
	earlier      []session
	observations []keyed.Observation
}

func (s *session) start() mtime.Time { return mtime.FromTime(s.observations[0].Time) }

// end is the time of the last observation.
func (s *session) end() mtime.Time {
	return mtime.FromTime(s.observations[len(s.observations)-1].Time)
}

// near reports whether no gap lies between two sessions.
func (s *session) near(o session, gap time.Duration) bool {
	return s.start() < o.end().Add(gap) && o.start() < s.end().Add(gap)
}

func (s *session) sort() {
	slices.SortStableFunc(s.observations, keyed.Observation.Compare)
}

// cut splits the session at every gap.
func (s *session) cut(gap time.Duration) (parts []session) {
	from := 0
	for i := 1; i <= len(s.observations); i++ {
		if i == len(s.observations) || mtime.FromTime(s.observations[i].Time) >= mtime.FromTime(s.observations[i-1].Time).Add(gap) {
			parts = append(parts, session{revision: s.revision, observations: s.observations[from:i]})
			from = i
		}
	}
	return parts
}

func (s *session) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(s.revision))
	for i := range s.observations {
		b, _ = s.observations[i].AppendBinary(b)
	}
	return b
}

// appendRevision appends the session with those of which it is the next revision.
func (s *session) appendRevision(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(s.earlier)))
	for _, e := range s.earlier {
		b = compact.AppendString(b, string(e.append(nil)))
	}
	return s.append(b)
}

func decodeRevision(b []byte) (s session, err error) {
	r := &compact.Reader{B: b}
	var earlier []session
	for range r.Count(1) {
		e, err := decodeSession([]byte(r.Text()))
		if err != nil {
			return s, err
		}
		earlier = append(earlier, e)
	}
	if r.Bad {
		return s, compact.ErrCut
	}
	s, err = decodeSession(r.B)
	s.earlier = earlier
	return s, err
}

func decodeSession(b []byte) (s session, err error) {
	r := &compact.Reader{B: b}
	s.revision = int64(r.Uvarint())
	if err := s.read(r.B); err != nil {
		return s, err
	}
	if len(s.observations) == 0 {
		return s, compact.ErrCut
	}
	return s, nil
}

// read adds the observations of b to the session.
func (s *session) read(b []byte) error {
	for all := keyed.ReadObservations(b, ""); all.More(); {
		o, err := all.Next(nil)
		if err != nil {
			return err
		}
		s.observations = append(s.observations, o)
	}
	return nil
}
