package sniff

import (
	"cmp"
	"maps"
	"regexp"
	"slices"

	"hafvf/connectors"
	"hafvf/internal/message"
	"hafvf/pipeline/decode"
)

// A part is a part of the records: those of an hour of the day, a weekday, a key or a file.
type part struct{ kind, name string }

// A tally counts the records of a part.
type tally struct {
	n, rejected   int
	place, reason string // of the first rejected record
}

// clockInTime matches the time of day in a text.
var clockInTime = regexp.MustCompile(`[ T](\d\d)(?::|$)`)

// countParts counts a record in its parts.
func (s *sample) countParts(r connectors.Record, d *decode.Decoded) {
	hour, weekday := "", ""
	if !d.Time.IsZero() {
		hour, weekday = d.Time.Format("15"), d.Time.Weekday().String()
	} else if d.Err != nil {
		text, _ := s.textsOf(r)
		if clock := clockInTime.FindStringSubmatch(text); clock != nil {
			hour = clock[1]
		}
	}
	for _, p := range []part{{"hour", hour}, {"weekday", weekday}, {"key", d.Key}, {"file", r.Path}} {
		c := s.parts[p]
		switch {
		case p.name == "":
			continue
		case c == nil:
			c = new(tally)
			s.parts[p] = c
		}
		c.n++
		if d.Err != nil {
			if c.rejected++; c.rejected == 1 {
				c.place, c.reason = d.ID, d.Err.Error()
			}
		}
	}
}

// lostParts adds a remark for each kind of part of which some are lost: all of their records are rejected.
func (s *sample) lostParts() {
	const minRecords = 2
	kinds, lost := map[string]int{}, map[string][]string{}
	for _, p := range slices.SortedFunc(maps.Keys(s.parts), func(a, b part) int { return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name)) }) {
		if kinds[p.kind]++; s.parts[p].rejected == s.parts[p].n && s.parts[p].n >= minRecords {
			lost[p.kind] = append(lost[p.kind], p.name)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(lost)) {
		if names := lost[kind]; len(names) < kinds[kind] {
			first := s.parts[part{kind, names[0]}]
			s.result.Remarks.add(true, "", "all records of %s are rejected: %s; such as %s: %s", message.Count(len(names), kind, kind+"s"), message.Some(names, 5), first.place, first.reason)
		}
	}
}
