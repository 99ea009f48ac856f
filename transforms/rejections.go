package transforms

import "log/slog"

// rejections says in the log what a copy of a node rejects: the first observation with its reason, and once
// more when most are rejected. The program has a dead letter and a summary for that, and no such log.
type rejections struct {
	total, rejected int64 // observations; those that are rejected are among the taken ones
	majorityLogged  bool  // was said
}

// majorityOf is the least number of observations of which it is said that most are rejected.
const minForMajority = 100

// observation notes one, and the reason why it is rejected; nil if it is not.
func (r *rejections) observation(reason error) {
	if reason == nil {
		r.count(1, 0, nil)
		return
	}
	if r.rejected == 0 {
		slog.Warn("an observation is rejected: the collection of rejected ones has this and further ones, with their reasons", "reason", reason)
	}
	r.count(1, 1, reason)
}

// count notes how many more observations were taken, and how many of them were rejected, one for that reason.
func (r *rejections) count(n, rejected int64, reason error) {
	r.total += n
	r.rejected += rejected
	if !r.majorityLogged && r.total >= minForMajority && 2*r.rejected > r.total {
		r.majorityLogged = true
		slog.Warn("most observations are rejected", "rejected", r.rejected, "of", r.total, "reason", reason)
	}
}
