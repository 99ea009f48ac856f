package records

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"hafvf/internal/message"
)

// A Rejection is a reason for which records were rejected.
type Rejection struct {
	Reason     string // in the words for the first record
	Count      int64
	Place, Raw string // of the first record
}

// Rejections counts rejected records by the kind of their reason. It is not safe for
// concurrent use.
type Rejections struct {
	kinds map[string]*Rejection
}

const (
	// maxKinds bounds the kinds that are told apart.
	maxKinds = 100
	// commonestKinds is how many a summary names.
	commonestKinds = 5
)

// Add counts a record that was rejected.
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

// Commonest returns the commonest kinds, a few.
func (r *Rejections) Commonest() (all []Rejection) {
	for _, k := range r.kinds {
		all = append(all, *k)
	}
	slices.SortFunc(all, func(a, b Rejection) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Reason, b.Reason))
	})
	return all[:min(len(all), commonestKinds)]
}

// kindOfReason returns a reason without what it quotes of the record, and without its
// numbers.
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
