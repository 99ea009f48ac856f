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

// Streams are the kinds of synthetic streams, of n observations each, drawn with seeds
// from the first on.
func Streams(first uint64, seeds, n int) Group {
	g := Group{Name: fmt.Sprintf("%d kinds of streams", len(streams.Kinds)), Truth: Complete}
	for k, kind := range streams.Kinds {
		c := Case{Name: kind.Name, Short: strings.Fields(kind.Name)[0]}
		for i := range uint64(seeds) {
			c.Draws = append(c.Draws, func() (Series, error) {
				s := kind.Make(rand.New(rand.NewPCG(first+i, uint64(k))), n)
				return Series{Family: kind.Family, X: s.X, Period: 1, Seed: first + i, Mean: s.Mean, Changes: s.Changes}, nil
			})
		}
		g.Cases = append(g.Cases, c)
	}
	return g
}

// A Record is a value of a key. It has no time where the series has none.
type Record struct {
	Time time.Time
	X    float64
}

// Keys makes a case of each key whose records, in the order of time, are more than the
// warm-up. Without labels nothing is known of them. left is the number of keys that have
// too few records.
func Keys(name, family string, records map[string][]Record, labels backtest.Labels) (g Group, left int) {
	g = Group{Name: name}
	if labels != nil {
		g.Truth = Windows
	}
	for _, key := range sorted(records) {
		all := records[key]
		if len(all) < 2*WarmUp {
			left++
			continue
		}
		s := Series{Family: family, Period: period(all), Seed: 1}
		for _, r := range all {
			s.X = append(s.X, r.X)
		}
		for _, w := range labels[key] {
			from := slices.IndexFunc(all, func(r Record) bool { return !r.Time.Before(w.Start) })
			to := len(all) - 1
			for to >= 0 && all[to].Time.After(w.End) {
				to--
			}
			if from >= 0 && from <= to {
				s.Windows = append(s.Windows, [2]int{from, to})
			}
		}
		g.Cases = append(g.Cases, Case{Name: key, Draws: []func() (Series, error){func() (Series, error) { return s, nil }}})
	}
	return g, left
}

func sorted(records map[string][]Record) (keys []string) {
	for k := range records {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// period is the number of observations in a day, if there are at least two days of
// observations at equal distances of less than half a day, and else 1.
func period(all []Record) int {
	const day = 24 * time.Hour
	var at []time.Time
	for _, r := range all {
		if r.Time.IsZero() {
			return 1
		}
		at = append(at, r.Time)
	}
	step := usual.MedianStep(at)
	if step <= 0 || step > day/2 || at[len(at)-1].Sub(at[0]) < 2*day {
		return 1
	}
	return int((day + step/2) / step)
}

// Bundled are the real series that the program brings along, with their windows.
func Bundled() ([]Group, error) {
	labels, err := backtest.ParseLabels(testdata.WindowsJSON)
	if err != nil {
		return nil, err
	}
	var all []Group
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
		all = append(all, g)
	}
	return all, nil
}

func readBundled(text []byte) (map[string][]Record, error) {
	rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil {
		return nil, err
	}
	records := map[string][]Record{}
	for _, row := range rows[1:] {
		at, err := times.Parse(row[1])
		if err != nil {
			return nil, err
		}
		x, err := strconv.ParseFloat(row[2], 64)
		if err != nil {
			return nil, err
		}
		records[row[0]] = append(records[row[0]], Record{at, x})
	}
	return records, nil
}
