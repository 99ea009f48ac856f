package incidents_test

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"hafvf/hafvf/incidents"
	"hafvf/internal/testing/expect"
)

var (
	begin = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	same  = cmpopts.IgnoreUnexported(incidents.Member{})
)

const week = 7 * 24 * time.Hour

// tree contains the keys of two sites with two racks each, of two hosts with three metrics.
var tree = func() (keys []string) {
	for i := range 24 {
		keys = append(keys, fmt.Sprintf("s%d/r%d/h%d:m%d", i/12, i/6%2, i/3%2, i%3))
	}
	return keys
}()

// stream draws alarms: single alarms, bursts in parts of the tree, and lasting storms.
func stream(t *rapid.T) (alarms []incidents.Alarm) {
	unit := rapid.SampledFrom([]time.Duration{time.Minute, time.Second, 1237 * time.Microsecond}).Draw(t, "unit")
	n := 0
	add := func(offset time.Duration, key string) {
		alarms = append(alarms, incidents.Alarm{
			ID: fmt.Sprint("a", n%50), Key: key, Kind: []string{"novelty", "change"}[n%2], Time: begin.Add(offset.Truncate(unit)),
			Score: float64(n % 7), Size: float64(n%5) - 2,
		})
		n++
	}
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
	length := time.Duration(rapid.IntRange(1, 200).Draw(t, "hours")) * time.Hour
	for range rapid.IntRange(0, 60).Draw(t, "single") {
		add(rand.N(length), tree[rng.IntN(len(tree))])
	}
	for range rapid.IntRange(0, 6).Draw(t, "bursts") {
		from, size := rng.IntN(4)*6, []int{6, 12, 24}[rng.IntN(3)]
		offset, within := time.Duration(rng.Int64N(int64(length))), []time.Duration{1, 5, 100}[rng.IntN(3)]*time.Minute
		for range 3 + rng.IntN(40) {
			add(offset+time.Duration(rng.Int64N(int64(within))), tree[(from+rng.IntN(size))%len(tree)])
		}
	}
	slices.SortStableFunc(alarms, func(a, b incidents.Alarm) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.ID, b.ID))
	})
	// ID, key and kind identify an alarm.
	met := map[[3]string]bool{}
	return slices.DeleteFunc(alarms, func(a incidents.Alarm) bool {
		name := [3]string{a.ID, a.Key, a.Kind}
		defer func() { met[name] = true }()
		return met[name]
	})
}

// grouping draws the grouping of the keys: a configuration, and the name of a key of the tree under it.
func grouping(t *rapid.T, cfg incidents.Config) (incidents.Config, func(key string) string) {
	cfg.MaxSinglePages = rapid.SampledFrom([]int{0, 3}).Draw(t, "single")
	if cfg.By = rapid.SampledFrom([][]string{nil, {"host"}, {"site", "rack", "host"}}).Draw(t, "by"); cfg.By == nil {
		return cfg, func(key string) string { return key }
	}
	return cfg, func(key string) string {
		return strings.NewReplacer("s", `m{site="`, "/r", `",rack="`, "/h", `",host="`, ":m", `",metric="`).Replace(key) + `"}`
	}
}

func register(f *incidents.Fleet) { registerAs(f, func(key string) string { return key }) }

func registerAs(f *incidents.Fleet, name func(key string) string) {
	for i, k := range tree {
		f.Register(name(k), begin, []time.Duration{time.Minute, 5 * time.Minute, 10 * time.Second}[i%3], week)
	}
}

func (s *result) add(step incidents.Step) {
	s.Events, s.Assigned, s.Singles = append(s.Events, step.Events...), append(s.Assigned, step.Assigned...), append(s.Singles, step.Singles...)
}

type result incidents.Step

func differ(t expect.T, what string, got, want any) {
	t.Helper()
	if diff := gocmp.Diff(want, got, same, cmpopts.EquateEmpty(), cmpopts.EquateNaNs()); diff != "" {
		t.Fatal(what, " (-want +got):\n", diff)
	}
}

// The result does not depend on the order of arrival of alarms and registrations within the lateness, on repeats, or on
// the steps of the watermark.
func TestFleetArrivalOrder(t *testing.T) {
	const lateness = 10 * time.Minute
	rapid.Check(t, func(t *rapid.T) {
		alarms := stream(t)
		cfg, name := grouping(t, incidents.Config{})
		for i := range alarms {
			alarms[i].Key = name(alarms[i].Key)
		}
		plain, other := newFleet(t, cfg), newFleet(t, cfg)
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 2))
		type arrival struct {
			arrived time.Time
			incidents.Alarm
			registers bool
		}
		var arrivals []arrival
		delayed := func(now time.Time) time.Time { return now.Add(time.Duration(rng.Int64N(int64(lateness)))) }
		for _, k := range tree {
			k = name(k)
			now := begin.Add(time.Duration(rng.IntN(48)) * time.Hour)
			plain.Register(k, now, time.Minute, week)
			arrivals = append(arrivals, arrival{delayed(now), incidents.Alarm{Key: k, Time: now}, true})
		}
		var want, got result
		for _, a := range alarms {
			plain.Add(a)
		}
		want.add(plain.Advance(begin.Add(4000 * time.Hour)))

		for _, a := range alarms {
			for range 1 + rng.IntN(2) {
				arrivals = append(arrivals, arrival{delayed(a.Time), a, false})
			}
		}
		slices.SortFunc(arrivals, func(a, b arrival) int { return a.arrived.Compare(b.arrived) })
		every := rapid.IntRange(1, 30).Draw(t, "every")
		for i, a := range arrivals {
			if a.registers {
				other.Register(a.Key, a.Time, time.Minute, week)
			} else {
				other.Add(a.Alarm)
			}
			if i%every == 0 {
				got.add(other.Advance(a.arrived.Add(-lateness - 1)))
			}
		}
		got.add(other.Advance(begin.Add(4000 * time.Hour)))
		differ(t, "result", got, want)
	})
}

// A fleet that is stored and restored after every step gives the same result, and has equal bytes.
func TestRestoreContinues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg, name := grouping(t, incidents.Config{Budget: rapid.SampledFrom([]time.Duration{0, time.Hour}).Draw(t, "budget")})
		alarms := stream(t)
		for i := range alarms {
			alarms[i].Key = name(alarms[i].Key)
		}
		lasting, restored := newFleet(t, cfg), newFleet(t, cfg)
		registerAs(lasting, name)
		registerAs(restored, name)
		late := rapid.IntRange(0, 20).Draw(t, "late") // these arrive after the watermark
		for i, a := range alarms {
			if i+late < len(alarms) && i%7 == 0 {
				a, alarms[i+late] = alarms[i+late], a
			}
			forgotten := i%31 == 30
			for _, f := range []*incidents.Fleet{lasting, restored} {
				f.Add(a)
				if forgotten {
					f.Forget(a.Key)
				}
			}
			want, got := lasting.Advance(a.Time.Add(-time.Minute)), restored.Advance(a.Time.Add(-time.Minute))
			differ(t, fmt.Sprintf("told of alarm %d", i), got, want)
			restored = restoredCopy(t, cfg, restored, lasting)
		}
		differ(t, "told at the end", restored.Advance(begin.Add(4000*time.Hour)), lasting.Advance(begin.Add(4000*time.Hour)))
	})
}

// restoredCopy restores a fleet from its bytes, which must equal those of same.
func restoredCopy(t expect.T, cfg incidents.Config, f, same *incidents.Fleet) *incidents.Fleet {
	t.Helper()
	b, _ := f.AppendBinary(nil)
	if other, _ := same.AppendBinary(nil); !bytes.Equal(b, other) {
		t.Fatal("different bytes")
	}
	back := expect.Get(incidents.Restore(cfg, b))(t)
	if c, _ := back.AppendBinary(nil); !bytes.Equal(b, c) {
		t.Fatal("different bytes after restoring")
	}
	return back
}

// paged counts the incidents that were a page.
func paged(events []incidents.Event) int {
	ids := map[string]bool{}
	for _, e := range events {
		if e.Page {
			ids[e.ID] = true
		}
	}
	return len(ids)
}

// The last assignment of an alarm is the incident that has it as a member, and is empty for an alarm in no incident.
func TestFleetAssignments(t *testing.T) {
	tr := readTrace(t, "testdata/golden_rack.json")
	last := map[string]incidents.Assignment{}
	var closed []incidents.Event
	tr.run(newFleet(t, incidents.Config{}), func(f *incidents.Fleet, s incidents.Step) *incidents.Fleet {
		for _, a := range s.Assigned {
			last[a.ID] = a
		}
		for _, e := range s.Events {
			if e.State == incidents.Closed {
				closed = append(closed, e)
			}
		}
		return f
	})
	if len(last) != len(tr.Alarms) || len(closed) == 0 {
		t.Fatalf("%d of %d alarms, %d incidents", len(last), len(tr.Alarms), len(closed))
	}
	for _, a := range tr.Alarms {
		want := ""
		for _, e := range closed {
			for _, m := range e.Members {
				if m.Key == a.Key && m.Time.Equal(unix(a.Time)) {
					want = e.ID
				}
			}
		}
		if last[a.ID].Incident != want || last[a.ID].Key != a.Key {
			t.Errorf("%+v: assigned to %+v, want %q", a, last[a.ID], want)
		}
	}
}

// A wide line raises alarms of many keys with one ID, and a record may raise two kinds.
func TestFleetRepeats(t *testing.T) {
	f := newFleet(t, incidents.Config{})
	a := incidents.Alarm{ID: "f.csv:7", Key: "cpu", Kind: "novelty", Time: begin}
	other, silent := a, a
	other.Key, silent.Kind = "disk", "silent"
	got := []bool{f.Add(a), f.Add(a), f.Add(other), f.Add(silent), f.Add(other)}
	expect.Same(t, []bool{true, false, true, true, false}, got, "added")
	assigned := map[[3]string]bool{}
	for _, a := range f.Advance(begin).Assigned {
		assigned[[3]string{a.ID, a.Key, a.Kind}] = true
	}
	if len(assigned) != 3 {
		t.Errorf("assigned %v", assigned)
	}
	f.Add(incidents.Alarm{ID: "later", Key: "cpu", Time: begin.Add(24*time.Hour - 1)})
	f.Advance(begin.Add(week))
	if f.Add(a) {
		t.Error("forgotten within a day")
	}
	f.Add(incidents.Alarm{ID: "a day later", Key: "cpu", Time: begin.Add(24 * time.Hour)})
	f.Advance(begin.Add(week))
	if !f.Add(a) {
		t.Error("known after a day")
	}
}

// nightly simulates a job of 12 keys at 04:00 in Berlin, also across the clock change on 29 March.
func nightly(t *testing.T, zone *time.Location) []incidents.Event {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip(err)
	}
	f := newFleet(t, incidents.Config{Zone: zone})
	register(f)
	var combined result
	rng := rand.New(rand.NewPCG(5, 6))
	for n := range 20 {
		night := time.Date(2026, 3, 17+n, 4, 0, 0, 0, berlin)
		for i := range 12 {
			now := night.Add(time.Duration(rng.IntN(4)) * time.Minute)
			f.Add(incidents.Alarm{ID: fmt.Sprint(n), Key: tree[i], Time: now, Score: 5})
		}
		combined.add(f.Advance(night.Add(5 * time.Hour)))
	}
	return combined.Events
}

// A nightly incident recurs at the same local time.
func TestFleetRhythmLocalTime(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip(err)
	}
	local, utc := nightly(t, berlin), nightly(t, time.UTC)
	if n, m := paged(local), paged(utc); n != 2 || m <= 2 {
		t.Errorf("%d pages by the clock of Berlin, %d by UTC; want two, and two more after the change", n, m)
	}
	last := local[len(local)-1]
	const message = "12 of 12 keys of s0 alarmed from 2026-04-05 04:00 to 04:03. "
	if !strings.HasPrefix(last.Message, message) || !strings.Contains(last.Message, " A similar incident occurred at this time on 7 of the last seven days.") {
		t.Error(last.Message)
	}
}

// A forgotten key leaves no trace of its name, wherever it was: as a member of an open incident or its first one, in a
// registration, or in a waiting alarm. Later events are as if its alarms had ended. Forgetting an unknown key changes
// nothing.
func TestFleetForget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		alarms := stream(t)
		cut := begin
		if len(alarms) > 0 {
			cut = alarms[rapid.IntRange(0, len(alarms)-1).Draw(t, "cut")].Time
		}
		forgotten := rapid.SampledFrom(tree).Draw(t, "gone")
		full, reduced := newFleet(t, incidents.Config{}), newFleet(t, incidents.Config{})
		for _, f := range []*incidents.Fleet{full, reduced} {
			register(f)
			for _, a := range alarms {
				if a.Time.Before(cut) || a.Key != forgotten {
					f.Add(a)
				}
			}
			f.Advance(cut.Add(-1))
		}
		full.Register(forgotten, cut.Add(week), time.Minute, week)
		full.Add(incidents.Alarm{ID: "waits", Key: forgotten, Kind: "novelty", Time: cut.Add(time.Second)})
		before, _ := full.AppendBinary(nil)
		full.Forget("s0/r0/h0")
		if b, _ := full.AppendBinary(nil); !bytes.Equal(b, before) {
			t.Fatal("a key that nobody has met changes the fleet")
		}
		for _, f := range []*incidents.Fleet{full, reduced} {
			f.Forget(forgotten)
			if slices.Contains(f.Names(), forgotten) {
				t.Fatal("it is among the names")
			}
		}
		restoredCopy(t, incidents.Config{}, full, reduced)
		differ(t, "result", full.Advance(begin.Add(4000*time.Hour)), reduced.Advance(begin.Add(4000*time.Hour)))
	})
	// The codec shortens names by the previous name; this name has no common part.
	f := newFleet(t, incidents.Config{})
	keys := append([]string{"zzz-secret"}, tree[:9]...)
	for _, k := range keys {
		f.Register(k, begin, time.Minute, week)
	}
	f.Register("waiting-secret", begin.Add(week), time.Minute, week)
	for i, k := range keys {
		f.Add(incidents.Alarm{ID: "of " + k, Key: k, Time: begin.Add(time.Hour + time.Duration(i)*time.Second)})
	}
	f.Add(incidents.Alarm{ID: "later", Key: "waiting-secret", Time: begin.Add(3 * time.Hour)})
	opened := f.Advance(begin.Add(61 * time.Minute)).Events
	if len(opened) == 0 || opened[0].NumMembers < 2 {
		t.Fatalf("no incident: %+v", opened)
	}
	b, _ := f.AppendBinary(nil)
	if bytes.Count(b, []byte("secret")) < 5 {
		t.Fatal("there is nothing to forget")
	}
	for _, k := range []string{"zzz-secret", "waiting-secret"} {
		f.Forget(k)
	}
	if b, _ = f.AppendBinary(nil); bytes.Contains(b, []byte("secret")) {
		t.Errorf("left: %q", b)
	}
	f = expect.Get(incidents.RestoreAny(b))(t)
	// An incident that loses all members still closes.
	for _, k := range keys {
		f.Forget(k)
	}
	closed := f.Advance(begin.Add(week)).Events
	if len(closed) != 1 || closed[0].State != incidents.Closed || closed[0].NumMembers != 0 || closed[0].ID != opened[0].ID || !strings.HasPrefix(closed[0].Message, "No key is left ") {
		t.Errorf("closed: %+v", closed)
	}
}

// A key that alarms before its registration has a step of a minute until the registration arrives, and then the same
// state as with an early registration.
func TestFleetLateRegistration(t *testing.T) {
	late, early := newFleet(t, incidents.Config{}), newFleet(t, incidents.Config{})
	hourly := func(f *incidents.Fleet) {
		for _, k := range tree {
			f.Register(k, begin, time.Hour, 10*week)
			f.Register(k, begin.Add(1), time.Minute, week) // the earliest registration applies
		}
	}
	hourly(early)
	var events [2][]incidents.Event
	for i, f := range []*incidents.Fleet{late, early} {
		for j, k := range tree {
			f.Add(incidents.Alarm{ID: fmt.Sprint(j), Key: k, Time: begin.Add(time.Duration(j) * 48 * time.Hour)})
		}
		f.Advance(begin.Add(10 * week))
		if i == 0 {
			hourly(f)
		}
		for j, k := range tree[:8] { // close together only at steps of an hour
			f.Add(incidents.Alarm{ID: fmt.Sprint("b", j), Key: k, Time: begin.Add(10*week + time.Duration(j)*time.Hour)})
		}
		events[i] = f.Advance(begin.Add(12 * week)).Events
	}
	if len(events[0]) == 0 || events[0][0].Window < time.Hour {
		t.Fatalf("found %v", events[0])
	}
	if diff := gocmp.Diff(events[1], events[0], same, cmpopts.EquateApprox(1e-12, 0)); diff != "" {
		t.Error(diff)
	}
}

// No input panics, and every alarm with a time is assigned.
func TestFleetBadInput(t *testing.T) {
	if _, err := incidents.New(incidents.Config{Budget: -1}); err == nil {
		t.Error("a negative budget")
	}
	hostile := []string{"", "/", "///", ":a", "a:", "a//b", strings.Repeat("x/", 1000), "\xff/\xfe", "ä/ö"}
	for _, cfg := range []incidents.Config{{}, {Separators: "ö"}, {Budget: 1}, {Budget: math.MaxInt64}} {
		f := newFleet(t, cfg)
		n := 0
		f.Register("", time.Time{}, 0, 0)
		for _, k := range hostile {
			f.Register(k, begin, -5, -5)
			f.Register(k+"2", begin, math.MaxInt64, 1)
		}
		times := []time.Time{begin, time.Unix(1<<62, 0), time.Unix(-1<<62, 0), begin.Add(1), time.Unix(0, math.MaxInt64), {}}
		for _, now := range times {
			for _, k := range hostile {
				for _, score := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
					if f.Add(incidents.Alarm{ID: fmt.Sprint(n), Key: k, Time: now, Score: score, Size: score}) {
						n++
					}
				}
			}
		}
		assigned := map[string]bool{}
		for _, now := range times {
			for _, a := range f.Advance(now).Assigned {
				assigned[a.ID] = true
			}
			f.Next()
			restoredCopy(t, cfg, f, f)
		}
		if len(assigned) != n || n != 5*3*len(hostile) {
			t.Errorf("%d of %d alarms assigned", len(assigned), n)
		}
		for _, k := range hostile {
			f.Forget(k)
			f.Forget(k + "2")
		}
		if f.Keys() != 0 {
			t.Errorf("%d keys left", f.Keys())
		}
		restoredCopy(t, cfg, f, f)
	}
}

// Advancing only to the times of Next gives all results. The pages keep guarantee 1.
func TestFleetNext(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := incidents.Config{Budget: rapid.SampledFrom([]time.Duration{time.Hour, 10 * time.Hour, week}).Draw(t, "budget")}
		f, g := newFleet(t, cfg), newFleet(t, cfg)
		register(f)
		register(g)
		alarms := stream(t)
		for _, a := range alarms {
			f.Add(a)
			g.Add(a)
		}
		var got result
		for {
			next, ok := f.Next()
			if !ok {
				break
			}
			step := f.Advance(next)
			if len(step.Assigned)+len(step.Events) == 0 {
				t.Fatalf("nothing to do at %v", next)
			}
			got.add(step)
		}
		differ(t, "result", got, result(g.Advance(begin.Add(4000*time.Hour))))
		if len(alarms) == 0 {
			return
		}
		span := alarms[len(alarms)-1].Time.Sub(alarms[0].Time)
		if bound := 7*float64(span)/float64(cfg.Budget) + 9; float64(paged(got.Events)) > bound {
			t.Fatalf("%d pages, the bound is %.1f", paged(got.Events), bound)
		}
	})
}

// Bytes that no fleet encoded are refused or, if accepted, can be used without a panic.
func FuzzRestore(f *testing.F) {
	tr := readTrace(f, "testdata/golden_nightly.json")
	n := 0
	fleet := newFleet(f, incidents.Config{})
	for _, k := range tree[:5] {
		fleet.Register(k, begin, time.Minute, week)
	}
	tr.Keys = nil
	tr.run(fleet, func(fl *incidents.Fleet, _ incidents.Step) *incidents.Fleet {
		if n++; n == 5 || n == 20 || n == 300 {
			b, _ := fl.AppendBinary(nil)
			f.Add(b)
		}
		return fl
	})
	f.Fuzz(useRestored)
}

// useRestored restores a fleet from any bytes and uses it.
func useRestored(t *testing.T, b []byte) {
	fleet, err := incidents.Restore(incidents.Config{}, b)
	if err != nil {
		return
	}
	c, _ := fleet.AppendBinary(nil)
	if _, err := incidents.Restore(incidents.Config{}, c); err != nil {
		t.Fatal(err)
	}
	next, ok := fleet.Next()
	if !ok {
		next = begin
	}
	for i, k := range tree {
		fleet.Add(incidents.Alarm{ID: fmt.Sprint("z", i), Key: k, Time: next.Add(time.Duration(i) * time.Second)})
		fleet.Advance(next)
	}
	fleet.Forget(tree[0])
	fleet.Advance(next.Add(5 * week))
}

// A truncated state, and a state of another format or other separators, are refused. Other bytes do not panic.
func TestRestoreRefuses(t *testing.T) {
	f := newFleet(t, incidents.Config{})
	register(f)
	f.Register("later", begin.Add(week), time.Minute, week)
	for i, k := range tree[:9] {
		f.Add(incidents.Alarm{ID: fmt.Sprint(i), Key: k, Time: begin.Add(time.Hour)})
		f.Add(incidents.Alarm{ID: fmt.Sprint(i), Key: k, Time: begin.Add(3 * time.Hour)})
	}
	f.Add(incidents.Alarm{ID: "waits", Key: tree[0], Time: begin.Add(4 * time.Hour)})
	f.Advance(begin.Add(3 * time.Hour))
	b, _ := f.AppendBinary(nil)
	for n := range b {
		if _, err := incidents.Restore(incidents.Config{}, b[:n]); err == nil {
			t.Errorf("the first %d of %d bytes are accepted", n, len(b))
		}
		other := slices.Clone(b)
		other[n] ^= []byte{1, 0x80, 0xff}[n%3]
		useRestored(t, other)
	}
	if _, err := incidents.Restore(incidents.Config{}, append(slices.Clone(b), 0)); err == nil {
		t.Error("another byte is accepted")
	}
	if _, err := incidents.Restore(incidents.Config{}, append([]byte{9}, b[1:]...)); err == nil {
		t.Error("another format is accepted")
	}
	if _, err := incidents.Restore(incidents.Config{Separators: "."}, b); err == nil {
		t.Error("other separators are accepted")
	}
}

// A state of the format before episodes is read as the same state without them.
func TestRestoreFormer(t *testing.T) {
	begins := func(ep *incidents.Episode, id string) *incidents.Episode {
		if ep == nil {
			return nil
		}
		same := *ep
		same.ID = id
		return &same
	}
	state := func(ep *incidents.Episode) []byte {
		f := newFleet(t, incidents.Config{})
		register(f)
		for i, k := range tree[:9] {
			f.Add(incidents.Alarm{ID: fmt.Sprint(i), Key: k, Time: begin.Add(3 * time.Hour), Episode: begins(ep, fmt.Sprint(i))})
		}
		f.Add(incidents.Alarm{ID: "waits", Key: tree[0], Time: begin.Add(4 * time.Hour), Episode: begins(ep, "waits")})
		f.Advance(begin.Add(3 * time.Hour))
		b, _ := f.AppendBinary(nil)
		return b
	}
	without := state(nil)
	former := expect.Get(os.ReadFile(filepath.Join("testdata", "format2.bin")))(t)
	for _, b := range [][]byte{without, former} {
		f := expect.Get(incidents.Restore(incidents.Config{}, b))(t)
		again, _ := f.AppendBinary(nil)
		expect.Same(t, without, again)
	}
	ep := &incidents.Episode{UsualMean: []float64{1, math.NaN()}, UsualSD: []float64{2, 3}, Worst: incidents.Worst{Time: begin, Value: 4, Size: -5}}
	b := state(ep)
	f := expect.Get(incidents.Restore(incidents.Config{}, b))(t)
	again, _ := f.AppendBinary(nil)
	expect.Same(t, b, again)
	for _, e := range f.Open() {
		for _, m := range e.Members {
			differ(t, "episode of a member", m.Episode, begins(ep, m.Episode.ID))
		}
		var got incidents.Event
		encoded, _ := e.AppendBinary(nil)
		expect.OK(t, got.UnmarshalBinary(encoded))
		differ(t, "encoded event", got, e)
		older := e
		older.Members = slices.Clone(e.Members)
		for i := range older.Members {
			older.Members[i].Episode = nil
		}
		cut, _ := older.AppendBinary(nil)
		expect.OK(t, got.UnmarshalBinary(cut[:len(cut)-len(older.Members)])) // an older version wrote no episodes
		differ(t, "event of an older version", got, older)
	}
	if len(f.Open()) == 0 {
		t.Error("no incident is open")
	}
}
