package keyed

import "math"

// Level returns the mean of the segment and the standard deviation of its observations.
func (g *Segment) Level() Moments { return Moments{g.Estimate.Mean, g.Scatter} }

// LevelChange returns what differs between the levels of two neighbouring segments: "mean", "scatter" or "both". For
// means m and standard deviations s, it compares the parts of the squared distance
//
//	(m − m′)² + (s − s′)²
//
// The larger part names the change, or both do if each is above a third of the sum. Subtracting the squared standard
// errors from the parts would rename at most 2 of 100 changes between segments of 20 observations or more. With several
// outputs, the output with the largest change in standard deviations counts. Infinite and undefined standard deviations
// count as equal. LevelChange returns "" if a level lacks them, or if the levels are equal.
func LevelChange(before, after Moments) string {
	largest, share := 0., math.NaN() // share of the means in the squared distance
	for o := range min(len(before.SD), len(after.SD)) {
		dm, ds, scale := after.Mean[o]-before.Mean[o], after.SD[o]-before.SD[o], math.Hypot(before.SD[o], after.SD[o])
		if !(scale < math.Inf(1)) {
			ds, scale = 0, 1
		}
		if size := math.Hypot(dm, ds); size/scale > largest {
			largest, share = size/scale, dm/size*dm/size
		}
	}
	switch {
	case share > 2./3:
		return "mean"
	case share < 1./3:
		return "scatter"
	case share == share:
		return "both"
	}
	return ""
}

// DescribeChange describes the change between two levels of one output: the means, the standard deviations, or both.
// number formats a number.
func DescribeChange(before, after Moments, number func(float64) string) string {
	arrow := func(b, a []float64) string { return number(b[0]) + " → " + number(a[0]) }
	switch LevelChange(before, after) {
	case "scatter":
		return "scatter " + arrow(before.SD, after.SD)
	case "both":
		return arrow(before.Mean, after.Mean) + ", scatter " + arrow(before.SD, after.SD)
	}
	return arrow(before.Mean, after.Mean)
}
