package transforms

import "log/slog"

// rejections logs the rejections of a copy of a node: the first rejected observation with its reason, and once that
// most observations are rejected. The hafvf program discards this log: it has a dead letter and a summary.
type rejections struct {
	total, rejected int64 // observations; total includes rejected
	majorityLogged  bool  // the second message was logged
}

// minForMajority is the minimum number of observations for the message that most are rejected.
const minForMajority = 100

// observation counts an observation. reason is the reason why it is rejected, or nil.
func (r *rejections) observation(reason error) {
	if reason == nil {
		r.count(1, 0, nil)
		return
	}
	if r.rejected == 0 {
		slog.Warn("observation rejected: this and further ones are in the collection of rejected observations, with their reasons", "reason", reason)
	}
	r.count(1, 1, reason)
}

// count adds n observations. rejected is the number of rejected ones among them, and reason the reason for one of them.
func (r *rejections) count(n, rejected int64, reason error) {
	r.total += n
	r.rejected += rejected
	if !r.majorityLogged && r.total >= minForMajority && 2*r.rejected > r.total {
		r.majorityLogged = true
		slog.Warn("most observations are rejected", "rejected", r.rejected, "of", r.total, "reason", reason)
	}
}
