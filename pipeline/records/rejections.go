package records

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"hafvf/internal/message"
)

// A Rejection is a kind of reason for which records were rejected.
type Rejection struct {
	Reason     string // reason of the first record
	Count      int64
	Place, Raw string // place and text of the first record
}

// Rejections counts rejected records by the kind of their reason. It is not safe for concurrent use.
type Rejections struct {
	kinds map[string]*Rejection
}

const (
	// maxKinds is the maximum number of kinds that are counted.
	maxKinds = 100
	// commonestKinds is the maximum number of kinds in a summary.
	commonestKinds = 5
)

// Add counts n rejected records. place and raw are kept for the first of their kind.
func (r *Rejections) Add(reason, place, raw string, n int) {
	kind := kindOfReason(reason)
	if r.kinds == nil {
		r.kinds = map[string]*Rejection{}
	}
	if r.kinds[kind] == nil {
		if len(r.kinds) == maxKinds {
			return
		}
		r.kinds[kind] = &Rejection{Reason: reason, Place: place, Raw: strings.Clone(message.Shorten(raw))}
	}
	r.kinds[kind].Count += int64(n)
}

// MostFrequent returns the most frequent kinds, at most five.
func (r *Rejections) MostFrequent() (kinds []Rejection) {
	for _, k := range r.kinds {
		kinds = append(kinds, *k)
	}
	slices.SortFunc(kinds, func(a, b Rejection) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Reason, b.Reason))
	})
	return kinds[:min(len(kinds), commonestKinds)]
}

// kindOfReason returns a reason without its quoted texts and digits.
func kindOfReason(reason string) string {
	var b strings.Builder
	for rest := reason; rest != ""; {
		if q, err := strconv.QuotedPrefix(rest); err == nil {
			b.WriteByte('"')
			rest = rest[len(q):]
			continue
		}
		if c := rest[0]; c < '0' || c > '9' {
			b.WriteByte(c)
		}
		rest = rest[1:]
	}
	return b.String()
}
