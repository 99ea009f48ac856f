package ablate

const week = 7 * 24 * 3600. // seconds

// A Score counts the alarms of a set. An alarm hits an incident from its start to its end and the tolerance of the
// key. Other alarms are false, except in the aftermath of an incident.
type Score struct {
	Incidents, Hit int
	True, False    int // alarms
	// False alarms per key and week, in the first week of a key and later.
	FirstWeek, Later float64
}

// F1 returns the harmonic mean of the share of incidents that are hit and the share of alarms that hit one.
func (s Score) F1() float64 {
	recall, precision := float64(s.Hit)/float64(max(s.Incidents, 1)), float64(s.True)/float64(max(s.True+s.False, 1))
	return 2 * precision * recall / max(precision+recall, 1e-9)
}

// score returns the score of a set whose series have raised alarms at the given Unix seconds.
func (set *Set) score(alarms [][]float64) (sc Score) {
	var falseFirst, falseLater, weeksFirst, weeksLater float64
	for i, s := range set.series {
		first, last := s.times[0], s.times[len(s.times)-1]
		weeksFirst += max(0, min(last, first+week)-s.countFrom) / week
		weeksLater += max(0, last-max(s.countFrom, first+week)) / week
		hit := make([]bool, len(s.incidents))
		for _, t := range alarms[i] {
			if t < s.countFrom {
				continue
			}
			hits := false
			for k, w := range s.incidents {
				if w.start <= t && t <= w.end+s.tolerance {
					hits, hit[k] = true, true
				}
			}
			switch {
			case hits:
				sc.True++
			case within(s.aftermath, t):
			case t < first+week:
				sc.False++
				falseFirst++
			default:
				sc.False++
				falseLater++
			}
		}
		for k, w := range s.incidents {
			if w.end < s.countFrom {
				continue
			}
			if sc.Incidents++; hit[k] {
				sc.Hit++
			}
		}
	}
	sc.FirstWeek, sc.Later = falseFirst/max(weeksFirst, 1e-9), falseLater/max(weeksLater, 1e-9)
	return sc
}

func within(windows []window, t float64) bool {
	for _, w := range windows {
		if w.start <= t && t <= w.end {
			return true
		}
	}
	return false
}
