package methods

// Tabular CUSUM, two-sided (Page 1954; Montgomery, Introduction to Statistical Quality Control, chapter 9): with z
// the standardised value,
//
//	C⁺ ← max(0, C⁺ + z − k),  C⁻ ← max(0, C⁻ − z − k),  an alarm if one is above h
//
// The change is at the observation at which that sum was last zero. k = ½ and h = 5 give one false alarm in 465
// observations if mean and standard deviation are known. Here both are estimated from the first 50 observations, and
// after each alarm from the next 50. During these observations the chart raises no alarm.
var cusums = []Method{
	{Name: "cusum", About: "CUSUM chart", Setting: "k = .5, h = 5, mean and sd of 50 observations", Source: "Page 1954; Montgomery",
		Detects: true, Places: true, New: func(Start) Follower { return &phased{chart: &cusum{k: .5, h: 5}, length: 50} }},
}

type cusum struct {
	k, h       float64
	up, down   float64
	nUp, nDown int // observations since the sum was zero
}

func (c *cusum) watch(z float64) (bool, int) {
	step := func(sum float64, n int, z float64) (float64, int) {
		if sum += z - c.k; sum <= 0 {
			return 0, 0
		}
		return sum, n + 1
	}
	c.up, c.nUp = step(c.up, c.nUp, z)
	c.down, c.nDown = step(c.down, c.nDown, -z)
	switch {
	case c.up > c.h:
		return true, c.nUp - 1
	case c.down > c.h:
		return true, c.nDown - 1
	}
	return false, -1
}

func (c *cusum) level() (mean, sd float64) { return 0, nan }
func (c *cusum) reset()                    { *c = cusum{k: c.k, h: c.h} }
func (c *cusum) floats() int               { return 4 }
