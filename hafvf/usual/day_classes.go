package usual

// dayClasses groups the days of the week that a stream treats alike. Days with equal numbers form a class; the index 0
// is Monday. The numbers are 0, 1, … in the order in which the classes first occur.
type dayClasses [7]uint8

// groupDays groups the days by average linkage: the two nearest classes are joined while the mean distance of their days
// is below 1, or while there are more than maxClasses. A distance of 1 or more means that two days differ. groupDays calls
// distance once for each two days, with a > b.
func groupDays(distance func(a, b int) float64, maxClasses int) dayClasses {
	var c dayClasses
	var distances [len(c)][len(c)]float64
	groups := make([][]int, len(c))
	for day := range groups {
		groups[day] = []int{day}
		for other := range day {
			distances[day][other] = distance(day, other)
			distances[other][day] = distances[day][other]
		}
	}
	for {
		first, second, least := 0, 0, 0.
		for i := range groups {
			for j := i + 1; j < len(groups); j++ {
				sum := 0.
				for _, a := range groups[i] {
					for _, b := range groups[j] {
						sum += distances[a][b]
					}
				}
				if mean := sum / float64(len(groups[i])*len(groups[j])); second == 0 || mean < least {
					first, second, least = i, j, mean
				}
			}
		}
		if second == 0 || least >= 1 && len(groups) <= maxClasses {
			break
		}
		groups[first] = append(groups[first], groups[second]...)
		groups = append(groups[:second], groups[second+1:]...)
	}
	for class, days := range groups { // in the order of their first days
		for _, day := range days {
			c[day] = uint8(class)
		}
	}
	return c
}
