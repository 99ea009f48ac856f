package keyed

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/hafvf/usual"
	"hafvf/internal/compact"
	"hafvf/internal/testing/familytest"
)

var update = flag.Bool("update", false, "write the golden states")

// A golden describes a state of testdata: the state of a key after n observations.
type golden struct {
	name          string
	folder        string // in testdata
	cfg           Config
	n             int
	each          func(i int, o *Observation) // changes observation i; nil changes nothing
	reportSilence bool                        // report the silence at the end
}

var (
	goldenStart = time.Date(2026, 3, 2, 5, 0, 0, 0, time.UTC)
)

const goldenStep = 10 * time.Minute

// goldens returns the goldens of each family, plain and recommended, and of each setting of the family normal.
func goldens() (list []golden) {
	withPrior := func(family string, cfg Config) Config {
		row := familytest.Of(family)
		cfg.Filter.Prior, cfg.Filter.Dim = row.MinParams, row.Dim
		if family == "ar" { // the states have the default by name
			cfg.Filter.Prior = expfam.Params{"order": 2.}
		}
		return cfg
	}
	for _, c := range familytest.All() {
		list = append(list,
			golden{name: c.Name + "_plain", cfg: withPrior(c.Name, Config{Filter: hafvf.Config{Family: c.Name}}), n: 105},
			golden{name: c.Name + "_recommended", cfg: withPrior(c.Name, Recommended(c.Name)), n: 105})
	}
	season := func(c *Config) { c.Filter.Season = &usual.RhythmConfig{Seasons: usual.DefaultSeasons()} }
	for _, family := range []string{"exponential", "poisson", "regression"} {
		c := withPrior(family, Recommended(family))
		season(&c)
		list = append(list, golden{name: family + "_season", cfg: c, n: 105})
	}
	add := func(name string, n int, each func(int, *Observation), change func(*Config)) *golden {
		c := Recommended("normal")
		change(&c)
		list = append(list, golden{name: "normal_" + name, cfg: c, n: n, each: each})
		return &list[len(list)-1]
	}
	silence := func(c *Config) { c.Silence = &SilenceConfig{} }
	paused := func(i int, o *Observation) {
		if i >= 100 {
			o.Time = o.Time.Add(40 * time.Hour)
		}
	}
	aggregate := func(value Aggregate) func(*Config) {
		return func(c *Config) {
			c.Aggregate = &AggregateConfig{Aggregation: Aggregation{Every: 30 * time.Minute, Value: value, Zone: "Europe/Berlin"}}
			c.Silence, c.Lateness = &SilenceConfig{}, time.Hour
		}
	}
	none := func(*Config) {}
	add("first", 0, nil, none)
	add("warm_up", 20, nil, none)
	add("missing", 103, func(i int, o *Observation) {
		if i%7 == 3 {
			o.X = [][]float64{{math.NaN()}}
		}
	}, none)
	add("lists", 60, func(i int, o *Observation) { o.X, o.Shape = append(o.X, []float64{float64(i % 5)}), List }, none)
	add("logs", 60, func(i int, o *Observation) { o.Log = fmt.Sprint("records-", i%3) }, none)
	add("arrival", 105, func(_ int, o *Observation) { o.Time = time.Time{} }, func(c *Config) { c.Order = Arrival })
	add("waits", 105, func(i int, o *Observation) { o.Time = o.Time.Add(time.Duration(i%4) * -15 * time.Minute) }, func(c *Config) { c.Lateness = time.Hour })
	add("late", 105, func(i int, o *Observation) {
		if i == 100 {
			o.Time = o.Time.Add(1000 * time.Hour)
		}
	}, silence).n = 103
	add("season", 105, nil, season)
	add("season_detects_nothing", 105, nil, func(c *Config) { season(c); c.Filter.Bank, c.Filter.Detect = nil, nil })
	add("log", 105, func(_ int, o *Observation) { o.X[0][0] = math.Exp(o.X[0][0]) }, func(c *Config) { c.Filter.Scale = hafvf.Log })
	add("time_unit", 105, nil, func(c *Config) { c.TimeUnit = time.Hour })
	add("depth", 105, nil, func(c *Config) {
		c.Filter.Bank, c.Filter.Detect, c.Filter.WarmUp = nil, nil, 0
		c.Filter.Member = &hafvf.Member{Levels: []hafvf.Beta{{Alpha: 9, Beta: 1}, {Alpha: 3, Beta: 1}, {Alpha: 1, Beta: 1}}, Top: .9}
	})
	add("structures", 105, nil, func(c *Config) {
		c.Filter.Bank = append(hafvf.DefaultBank(), hafvf.Member{Levels: []hafvf.Beta{{Alpha: 9, Beta: 1}}, Top: 1, AR: 2})
	})
	add("silence", 105, nil, silence)
	add("silence_told", 100, paused, silence).reportSilence = true
	add("silence_over", 103, paused, silence)
	add("silence_bound", 100, paused, func(c *Config) { c.Silence = &SilenceConfig{After: time.Hour} }).reportSilence = true
	add("lookback", 105, func(i int, o *Observation) {
		if i >= 98 {
			o.X[0][0] = 2
		}
	}, func(c *Config) { c.Lookback = 40 * time.Minute })
	add("expire", 105, func(i int, o *Observation) { o.LogTime = o.Time.Add(5 * time.Hour) }, func(c *Config) { c.Expire = 10 * time.Hour })
	add("expired", 103, paused, func(c *Config) { c.Expire = 10 * time.Hour; silence(c) })
	add("expired_by_log", 103, func(i int, o *Observation) {
		if i >= 100 {
			o.LogTime = o.Time.Add(40 * time.Hour)
		}
	}, func(c *Config) { c.Expire = 10 * time.Hour })
	add("beliefs", 105, nil, func(c *Config) {
		c.Alerts.Beliefs, c.Alerts.Cooldown = []hafvf.Kind{hafvf.Outlier, hafvf.Change, hafvf.Revision}, time.Minute
	})
	add("alarms_in_zone", 105, nil, func(c *Config) { c.Alarms.Seasons, c.Alarms.Zone, c.Alarms.Order = nil, "Europe/Berlin", 0 })
	for _, value := range []Aggregate{Count, Mean, Max, Last, Median} {
		add("aggregate_"+string(value), 400, nil, aggregate(value))
	}
	refused := withPrior("regression", Recommended("regression"))
	refused.Silence, refused.Alarms.Budget = &SilenceConfig{After: time.Hour}, 1
	return append(list, golden{name: "regression_refused", cfg: refused, n: 94, each: func(i int, o *Observation) {
		if i >= 92 { // the budget pays for a silence; the guard restores it
			o.Time = o.Time.Add(40 * time.Hour)
		}
		if i >= 90 {
			for j := range o.X[0] {
				o.X[0][j] = 1e100 * float64(i)
			}
		}
	}})
}

// observation returns observation i of the script; the first is 0. Observations 90 to 99 deviate much from usual, later
// ones a little.
func (g *golden) observation(i int) Observation {
	rng := rand.New(rand.NewPCG(uint64(i), 7))
	far := 0.
	switch {
	case i >= 100:
		far = 1
	case i >= 90:
		far = 9
	}
	o := Observation{Time: goldenStart.Add(time.Duration(i) * goldenStep), Log: "records-3", Seq: int64(i)}
	o.ID = sourceID(&o)
	x := familytest.Of(g.cfg.Filter.Family).Far(rng, far)
	o.X = [][]float64{x}
	if len(x) > 1 {
		o.Shape = Vector
	}
	if g.each != nil {
		g.each(i, &o)
	}
	return o
}

// estimator returns the estimator of the state. Its clock has a fixed time, after the script.
func (g *golden) estimator(t *testing.T) *Estimator {
	est := newEstimator(t, g.cfg)
	est.now = func() time.Time { return goldenStart.Add(300 * goldenStep) }
	return est
}

// take passes observations of the script to the KeyState, and returns its encoded results. If reader is not nil, take
// stores the KeyState after each observation, and opens it with reader.
func (g *golden) take(t *testing.T, e *KeyState, start, end int, reader *Estimator) (results []byte) {
	t.Helper()
	learn := func(o *Observation) {
		var out Estimate
		learnNow(e, &out, o)
		results, _ = out.AppendBinary(results)
		results = fmt.Append(results, out.SkipReason, out.Reset)
	}
	for i := start; i < end; i++ {
		o := g.observation(i)
		fatal(t, e.est.Checker(e.key)(&o))
		now, err := e.take(&o)
		results = fmt.Append(results, err)
		if now {
			learn(&o)
		}
		for o, ok := e.due(); ok; o, ok = e.due() {
			learn(&o)
		}
		for _, s := range e.endedSilences {
			results = binary.AppendVarint(compact.Encode(results, s.Silence, silenceForm), s.N)
			results = compact.AppendTime(binary.AppendVarint(results, int64(s.Outputs)), s.Until)
		}
		results = fmt.Append(results, e.expired)
		e.endedSilences, e.expired = nil, false
		if reader != nil {
			if *e, err = reader.Open(e.key, e.append(nil)); err != nil {
				t.Fatalf("after %d observations: %v", i+1, err)
			}
		}
	}
	return results
}

// scripted returns the KeyState after the script, and its encoded results. reader is as in take.
func (g *golden) scripted(t *testing.T, reader *Estimator) (e KeyState, results []byte) {
	e = must(g.estimator(t).Open("pump/1", nil))
	results = g.take(t, &e, 0, g.n, reader)
	if g.reportSilence {
		if _, alerted := e.ReportSilence(e.Deadline()); !alerted {
			t.Fatal("no silence is reported")
		}
	}
	return e, results
}

func (g *golden) file() string {
	return filepath.Join("testdata", g.folder, g.name+".txt")
}

// text returns the contents of the file of a state: its settings, its snapshot and its bytes.
func (g *golden) text(t *testing.T, state []byte) string {
	_, settings := g.cfg.Settings()("pump/1")
	snapshot := must(g.estimator(t).Snapshot("pump/1", state))
	text := fmt.Sprintf("settings %s\nsnapshot %+v\nstate of %d observations\n", settings, snapshot, g.n)
	for line := range slices.Chunk(state, 40) {
		text += hex.EncodeToString(line) + "\n"
	}
	return text
}

// read returns the file of the golden and the state in it.
func (g *golden) read(t *testing.T) (text string, state []byte) {
	b := must(os.ReadFile(g.file()))
	lines := strings.SplitN(string(b), "\n", 4)
	return string(b), must(hex.DecodeString(strings.ReplaceAll(lines[3], "\n", "")))
}

// The state of a key equals its file in testdata. A state that is read from the file gives the same results as one that
// was never stored, and so does a state that is stored and opened after each observation.
func TestGoldenStates(t *testing.T) {
	files := []string{filepath.Join("testdata", "migrations.txt")}
	for _, g := range goldens() {
		files = append(files, g.file())
		t.Run(g.name, func(t *testing.T) {
			straight, want := g.scripted(t, nil)
			state := straight.append(nil)
			if often, results := g.scripted(t, g.estimator(t)); !bytes.Equal(results, want) || !bytes.Equal(often.append(nil), state) {
				t.Error("storing and opening after each observation changes the results or the state")
			}
			if *update {
				fatal(t, os.WriteFile(g.file(), []byte(g.text(t, state)), 0o666))
			}
			text, stored := g.read(t)
			if runtime.GOARCH != "amd64" {
				state = stored // other machines round differently
			}
			if got := g.text(t, state); got != text {
				t.Errorf("state\n%s\nwant, from the file,\n%s", got, text)
			}
			if runtime.GOARCH != "amd64" {
				return
			}
			resumed := must(g.estimator(t).Open("pump/1", stored))
			if encoded := resumed.append(nil); !bytes.Equal(encoded, stored) {
				t.Errorf("opened and encoded again: %x, want %x", encoded, stored)
			}
			if !bytes.Equal(g.take(t, &resumed, g.n, g.n+60, nil), g.take(t, &straight, g.n, g.n+60, nil)) {
				t.Error("the opened state gives other results")
			}
			if !bytes.Equal(resumed.append(nil), straight.append(nil)) {
				t.Error("the states differ after 60 more observations")
			}
		})
	}
	paths := must(filepath.Glob("testdata/*.txt"))
	for _, file := range paths {
		if !slices.Contains(files, file) {
			t.Errorf("%s belongs to no golden", file)
		}
	}
}

// States of older formats are read. An alarm that was open goes on as an episode, and ends.
func TestFormerStates(t *testing.T) {
	for format := byte(oldestFormat); format < formatTag; format++ {
		states, open := 0, 0
		for _, g := range goldens() {
			g.folder = fmt.Sprint("format", format)
			if _, err := os.Stat(g.file()); err != nil {
				continue
			}
			states++
			t.Run(fmt.Sprint(g.name, " of format ", format), func(t *testing.T) {
				if g.formerState(t, format) {
					open++
				}
			})
		}
		if states < 7 || open < 5 && format == formatOfLasting {
			t.Errorf("format %d: %d states, and %d have an open alarm", format, states, open)
		}
	}
}

// formerState checks the state of an older format, and reports whether it has an open alarm.
func (g *golden) formerState(t *testing.T, format byte) (open bool) {
	_, stored := g.read(t)
	if stored[0] != format {
		t.Fatalf("format %d", stored[0])
	}
	e := must(g.estimator(t).Open("pump/1", stored))
	ep := e.decisions.episode
	b := e.append(nil)
	if again := must(g.estimator(t).Open("pump/1", b)); b[0] != formatTag || !bytes.Equal(again.append(nil), b) {
		t.Error("the state changes when it is written again")
	}
	ended := ""
	for i := g.n; i < g.n+120; i++ {
		o := g.observation(i)
		var out Estimate
		learnNow(&e, &out, &o)
		if r := out.Recovered; r != nil && ended == "" {
			ended = r.ID
		}
		if out.SkipReason != "" {
			t.Fatalf("observation %d: %s", i, out.SkipReason)
		}
	}
	if ep.open && (!ep.known() || ep.reports != 1 && format == formatOfLasting || ended != ep.id) {
		t.Errorf("the open episode %q: %+v; the first end is of %q", ep.id, ep, ended)
	}
	return ep.open
}

// Migrating each state of the family normal to each of its configurations gives the results of the file.
func TestGoldenMigrations(t *testing.T) {
	var text strings.Builder
	list := goldens()
	for _, source := range list {
		if !strings.HasPrefix(source.name, "normal_") {
			continue
		}
		_, state := source.read(t)
		_, written := source.cfg.Settings()("pump/1")
		for _, target := range list {
			if !strings.HasPrefix(target.name, "normal_") {
				continue
			}
			target.cfg.NameKeys = true
			m := newMigrator(t, target.cfg)
			_, differ := m.Check("pump/1", state, written)
			b, carried, err := m.Migrate("pump/1", state, written)
			if carried.String() != "" && err == nil {
				fmt.Fprintf(&text, "%s to %s: %v: %s: %d bytes, %x\n", source.name, target.name, differ, carried, len(b), compact.FingerprintOf(string(b)))
			}
		}
	}
	file := filepath.Join("testdata", "migrations.txt")
	if *update {
		fatal(t, os.WriteFile(file, []byte(text.String()), 0o666))
	}
	want := must(os.ReadFile(file))
	got, lines := strings.Split(text.String(), "\n"), strings.Split(string(want), "\n")
	if len(got) != len(lines) {
		t.Fatalf("%d migrations, want %d", len(got), len(lines))
	}
	for i := range got {
		if got[i] != lines[i] {
			t.Errorf("%s\nwant %s", got[i], lines[i])
		}
	}
}
