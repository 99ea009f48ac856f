// Package ablate measures what each mechanism of the alarms is worth: it switches the mechanisms off one by one, and
// counts hits and false alarms on sets of series with known incidents.
//
// The product has no switches. Build adds them to a copy of its sources, and builds a worker from this copy, which
// serves all rows. The worker computes the decisions of package keyed without the filter: single numbers have a score,
// and the alarms of a stream with a score do not depend on the filter.
package ablate

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"runtime"
	"time"

	"hafvf/hafvf/keyed"
	"hafvf/internal/parallel"
)

// A Job tells a worker what to measure.
type Job struct {
	Dir   string // folder of the sets that are read
	Sets  []string
	Seeds []uint64   // of the simulated sets
	Rows  [][]string // each row: the mechanisms that are off
}

// A Result holds the alarms of one row on one set, and their score.
type Result struct {
	Off    []string
	Set    string
	Score  Score
	Alarms [][]float64 // Unix seconds, by series
}

// Work reads a Job from r, and writes a Result for each row and set to w as JSON, as soon as it is known. It calls
// switchOff before each row.
func Work(r io.Reader, w io.Writer, switchOff func([]string)) error {
	var job Job
	if err := json.NewDecoder(r).Decode(&job); err != nil {
		return err
	}
	sets := make([]*Set, len(job.Sets))
	for i, name := range job.Sets {
		set, err := makeSet(name, job.Dir, job.Seeds)
		if err != nil {
			return err
		}
		sets[i] = set
	}
	out := json.NewEncoder(w)
	for _, off := range job.Rows {
		switchOff(off)
		for _, set := range sets {
			alarms, err := set.alarms()
			if err == nil {
				err = out.Encode(Result{off, set.Name, set.score(alarms), alarms})
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// config is the configuration of the program for model {family: normal, prior: auto} and detect: true.
func (set *Set) config() keyed.Config {
	c := keyed.Recommended("normal")
	c.OmitPosterior = true
	c.Alarms.BudgetTime, c.Alarms.Zone = set.budget, set.zone
	return c
}

// alarms returns the Unix seconds of the alarms of each series.
func (set *Set) alarms() ([][]float64, error) {
	workers := runtime.GOMAXPROCS(0)
	estimators := make([]*keyed.Estimator, workers)
	for i := range estimators {
		var err error
		if estimators[i], err = keyed.NewEstimator(set.config()); err != nil {
			return nil, fmt.Errorf("%s: %w", set.Name, err)
		}
	}
	alarms := make([][]float64, len(set.series))
	parallel.Do(len(set.series), workers, func(worker, i int) {
		alarms[i] = set.series[i].alarms(estimators[worker])
	})
	return alarms, nil
}

func (s *series) alarms(est *keyed.Estimator) (alarms []float64) {
	track := est.NewTrack(s.name)
	var m keyed.Memory
	var e keyed.Estimate
	o, last := keyed.Value(time.Time{}, "", 0), math.Inf(-1)
	for i, t := range s.times {
		if t < last { // the program does not learn late records
			continue
		}
		last = t
		sec, frac := math.Modf(t)
		o.Time, o.X[0][0] = time.Unix(int64(sec), int64(frac*1e9)).UTC(), s.x[i]
		if est.EstimateIn(&m, &e, track, &o); e.Alarm != nil {
			alarms = append(alarms, t)
		}
	}
	return alarms
}
