package ablate

import (
	"compress/gzip"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"hafvf/hafvf/usual"
	"hafvf/internal/message"
)

// A Set is series of numbers with known incidents.
type Set struct {
	Name   string
	budget time.Duration // per alarm
	zone   string
	series []*series
}

// series is a key with its incidents. Times are Unix seconds.
type series struct {
	name                 string
	times, x             []float64 // a NaN in x is a missing value
	countFrom            float64   // earlier alarms and incidents do not count
	tolerance            float64   // seconds after an incident in which an alarm still hits it
	incidents, aftermath []window
}

type window struct{ start, end float64 }

// A source makes a set. dir is the folder of the sets that are read; simulated ones have a seed.
type source struct {
	name string
	make func(name, dir string, seed uint64) (*Set, error)
}

// sources are all sets, sorted by their step from fine to slow.
var sources = []source{
	{"smd", read}, {"planted_1min", read}, {"services_1min", simulate(func(seed uint64) []*series { return services(seed, 1) })},
	{"asd", read}, {"planted_5min", read}, {"services_5min", simulate(func(seed uint64) []*series { return services(seed, 5) })},
	{"plans_5min", simulate(func(seed uint64) []*series { return plans(seed, 5*time.Minute, 21) })},
	{"plans_15min", simulate(func(seed uint64) []*series { return plans(seed, 15*time.Minute, 42) })},
	{"plans_1h", simulate(func(seed uint64) []*series { return plans(seed, time.Hour, 84) })},
	{"planted_1h", read}, {"planted_1d", read},
}

// SetNames returns the names of all sets.
func SetNames() (names []string) {
	for _, s := range sources {
		names = append(names, s.name)
	}
	return names
}

// Simulated reports whether a set needs no folder.
func Simulated(name string) bool {
	return strings.HasPrefix(name, "services") || strings.HasPrefix(name, "plans")
}

// CheckSet returns an error if there is no set of the name.
func CheckSet(name string) error {
	if names := SetNames(); !slices.Contains(names, name) {
		return fmt.Errorf("no set %q; the nearest is %q", name, message.Closest(name, names))
	}
	return nil
}

// makeSet returns the set of a name, with the series of all seeds if it is simulated.
func makeSet(name, dir string, seeds []uint64) (*Set, error) {
	if err := CheckSet(name); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(sources, func(s source) bool { return s.name == name })
	if !Simulated(name) {
		seeds = []uint64{0}
	}
	set := &Set{Name: name, budget: usual.DefaultBudgetTime, zone: "UTC"}
	switch {
	case strings.HasSuffix(name, "_1d"):
		set.budget = 2400 * time.Hour
	case strings.HasPrefix(name, "plans"):
		set.zone = plansZone
	}
	for _, seed := range seeds {
		s, err := sources[i].make(name, dir, seed)
		if err != nil {
			return nil, err
		}
		set.series = append(set.series, s.series...)
	}
	return set, nil
}

func simulate(draw func(seed uint64) []*series) func(string, string, uint64) (*Set, error) {
	return func(_, _ string, seed uint64) (*Set, error) { return &Set{series: draw(seed)}, nil }
}

// read reads a set from NAME.csv.gz (key, time, value), NAME-keys.csv (key, count from, tolerance) and NAME-labels.csv
// (key, start, end, kind), which have a header. Times are Unix seconds. Alarms in an "aftermath" neither hit nor are
// false.
func read(name, dir string, _ uint64) (*Set, error) {
	set, byKey := &Set{}, map[string]*series{}
	var bad error
	number := func(s string) float64 {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil && bad == nil {
			bad = err
		}
		return v
	}
	for _, part := range []struct {
		file    string
		columns int
		row     func(s *series, r []string)
	}{
		{"-keys.csv", 3, func(s *series, r []string) { s.countFrom, s.tolerance = number(r[1]), number(r[2]) }},
		{"-labels.csv", 4, func(s *series, r []string) {
			if w := (window{number(r[1]), number(r[2])}); r[3] == "aftermath" {
				s.aftermath = append(s.aftermath, w)
			} else {
				s.incidents = append(s.incidents, w)
			}
		}},
		{".csv.gz", 3, func(s *series, r []string) {
			x := math.NaN()
			if r[2] != "" {
				x = number(r[2])
			}
			s.times, s.x = append(s.times, number(r[1])), append(s.x, x)
		}},
	} {
		file := filepath.Join(dir, name+part.file)
		err := readRows(file, part.columns, func(r []string) {
			s := byKey[r[0]]
			if s == nil && part.file == "-keys.csv" {
				s = &series{name: r[0]}
				byKey[r[0]], set.series = s, append(set.series, s)
			}
			if s != nil {
				part.row(s, r)
			}
		})
		if err == nil {
			err = bad
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	set.series = slices.DeleteFunc(set.series, func(s *series) bool { return len(s.times) == 0 })
	return set, nil
}

// readRows calls row for each row of a CSV file but the first. Each row must have the given number of columns. The row
// is valid until the next call.
func readRows(file string, columns int, row func([]string)) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	var text io.Reader = f
	if strings.HasSuffix(file, ".gz") {
		if text, err = gzip.NewReader(f); err != nil {
			return err
		}
	}
	rows := csv.NewReader(text)
	rows.ReuseRecord = true
	for n := 0; ; n++ {
		switch r, err := rows.Read(); {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case n > 0:
			if len(r) < columns {
				return fmt.Errorf("row %d has %d columns, want %d", n, len(r), columns)
			}
			row(r)
		}
	}
}
