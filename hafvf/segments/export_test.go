package segments

// SmoothLong smooths a session of any length as if it were too long for the recursion over its observations.
func (s *Segmenter) SmoothLong(steps [][][]float64) *Segmentation {
	g := s.newSegmentation(nil, steps)
	b := newBuffers(g.lanes, len(g.stepIndex))
	s.searchLong(g, b)
	s.estimate(g, b)
	return g
}
