// Package segments finds the segments of a finished session: where a regime ended, which observations were
// accidents, and how fast the mean drifts in between.
//
//	g := segments.NewSegmenter(model, 10).Smooth(steps)
//	g.Changes() // the steps at which a segment begins
//
// The smoother of the paper, one filter forward and backward, is hafvf.Filter.Smooth.
package segments
