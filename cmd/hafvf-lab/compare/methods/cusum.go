package methods

// Tabular CUSUM, two-sided (Page 1954; Montgomery, Introduction to Statistical Quality
// Control, chapter 9): with z the standardised value,
//
//	C⁺ ← max(0, C⁺ + z − k),  C⁻ ← max(0, C⁻ − z − k),  an alarm where one is above h
//
// and the change where that one was last zero. k = ½ and h = 5 give a false alarm in 465
// observations where mean and standard deviation are known. Here they are those of 50
// observations, and of 50 more after each alarm, when the chart is silent.
var cusums = []Method{
	{Name: "cusum", About: "CUSUM chart", Setting: "k = .5, h = 5, mean and sd of 50 observations", Source: "Page 1954; Montgomery",
		Detects: true, Places: true, New: func(Start) Follower { return &phased{chart: &cusum{k: .5, h: 5}, length: 50} }},
}

type cusum struct {
	k, h      float64
	up, down  float64
	nUp, nLow int // observations since the sum was zero
}

func (c *cusum) watch(z float64) (bool, int) {
	step := func(sum float64, n int, z float64) (float64, int) {
		if sum += z - c.k; sum <= 0 {
			return 0, 0
		}
		return sum, n + 1
	}
	c.up, c.nUp = step(c.up, c.nUp, z)
	c.down, c.nLow = step(c.down, c.nLow, -z)
	switch {
	case c.up > c.h:
		return true, c.nUp - 1
	case c.down > c.h:
		return true, c.nLow - 1
	}
	return false, -1
}

func (c *cusum) level() (mean, sd float64) { return 0, nan }
func (c *cusum) reset()                    { *c = cusum{k: c.k, h: c.h} }
func (c *cusum) floats() int               { return 4 }
