package segments

// SmoothLong is Smooth as for a session that is too long for the recursion over its observations.
func (s *Segmenter) SmoothLong(steps [][][]float64) *Segmentation {
	g := s.newSegmentation(nil, steps)
	b := newBuffers(g.lanes, len(g.stepIndex))
	s.searchLong(g, b)
	s.estimate(g, b)
	return g
}
