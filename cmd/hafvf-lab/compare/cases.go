package compare

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"hafvf/cmd/hafvf/backtest"
	"hafvf/hafvf/usual"
	"hafvf/internal/testing/streams"
	"hafvf/internal/times"
	"hafvf/testdata"
)

// Streams returns one case for each kind of synthetic stream. Each case has the given number of draws, with the seeds
// first, first+1, … and n observations each.
func Streams(first uint64, draws, n int) Group {
	g := Group{Name: fmt.Sprintf("%d kinds of streams", len(streams.Kinds)), Truth: Complete}
	for k, kind := range streams.Kinds {
		c := Case{Name: kind.Name, Short: strings.Fields(kind.Name)[0]}
		for i := range uint64(draws) {
			c.Draws = append(c.Draws, func() (Series, error) {
				s := kind.Make(rand.New(rand.NewPCG(first+i, uint64(k))), n)
				return Series{Family: kind.Family, X: s.X, Period: 1, Seed: first + i, Mean: s.Mean, Changes: s.Changes}, nil
			})
		}
		g.Cases = append(g.Cases, c)
	}
	return g
}

// A Record is a value of a key. Time is zero if the series has no times.
type Record struct {
	Time time.Time
	X    float64
}

// Keys returns one case for each key that has at least 2·WarmUp records; the records of a key are in time order.
// skipped is the number of other keys. If labels is nil, nothing is known about the cases.
func Keys(name, family string, records map[string][]Record, labels backtest.Labels) (g Group, skipped int) {
	g = Group{Name: name}
	if labels != nil {
		g.Truth = Windows
	}
	for _, key := range sorted(records) {
		series := records[key]
		if len(series) < 2*WarmUp {
			skipped++
			continue
		}
		s := Series{Family: family, Period: period(series), Seed: 1}
		for _, r := range series {
			s.X = append(s.X, r.X)
		}
		for _, w := range labels[key] {
			start := slices.IndexFunc(series, func(r Record) bool { return !r.Time.Before(w.Start) })
			end := len(series) - 1
			for end >= 0 && series[end].Time.After(w.End) {
				end--
			}
			if start >= 0 && start <= end {
				s.Windows = append(s.Windows, [2]int{start, end})
			}
		}
		g.Cases = append(g.Cases, Case{Name: key, Draws: []func() (Series, error){func() (Series, error) { return s, nil }}})
	}
	return g, skipped
}

func sorted(records map[string][]Record) (keys []string) {
	for k := range records {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// period returns the number of observations in a day. It returns 1 if a record has no time, if the records span less
// than two days, or if their median step is not positive or is above half a day.
func period(records []Record) int {
	const day = 24 * time.Hour
	var timestamps []time.Time
	for _, r := range records {
		if r.Time.IsZero() {
			return 1
		}
		timestamps = append(timestamps, r.Time)
	}
	step := usual.MedianStep(timestamps)
	if step <= 0 || step > day/2 || timestamps[len(timestamps)-1].Sub(timestamps[0]) < 2*day {
		return 1
	}
	return int((day + step/2) / step)
}

// Bundled returns the real series that are embedded in the program, with their windows.
func Bundled() ([]Group, error) {
	labels, err := backtest.ParseLabels(testdata.WindowsJSON)
	if err != nil {
		return nil, err
	}
	var groups []Group
	for _, file := range []struct {
		name, family string
		text         []byte
	}{
		{"8 series of servers, in windows", "normal", testdata.CloudCSV},
		{"5 series of tweets, in windows", "poisson", testdata.TweetsCSV},
	} {
		records, err := readBundled(file.text)
		if err != nil {
			return nil, err
		}
		g, _ := Keys(file.name, file.family, records, labels)
		groups = append(groups, g)
	}
	return groups, nil
}

func readBundled(text []byte) (map[string][]Record, error) {
	rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil {
		return nil, err
	}
	records := map[string][]Record{}
	for _, row := range rows[1:] {
		t, err := times.Parse(row[1])
		if err != nil {
			return nil, err
		}
		x, err := strconv.ParseFloat(row[2], 64)
		if err != nil {
			return nil, err
		}
		records[row[0]] = append(records[row[0]], Record{t, x})
	}
	return records, nil
}
