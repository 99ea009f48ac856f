package fleet

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"hafvf/hafvf/incidents"
	"hafvf/hafvf/keyed"
	"hafvf/internal/testing/expect"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// A heard listener records alerts.
type heard []string

func (h *heard) Alert(key string, t keyed.AlertEvent, _ string) {
	*h = append(*h, key+" "+t.ID+" "+t.Kind)
}
func (h *heard) Single(key string, t keyed.AlertEvent, _ bool) {
	*h = append(*h, "page "+key+" "+t.ID+" "+t.Kind)
}
func (*heard) Assigned(incidents.Assignment) {}
func (h *heard) Incident(e *incidents.Event) { *h = append(*h, string(e.State)+" "+e.Group) }
func (*heard) Digest(*incidents.Digest)      {}

// alarm returns the notice of an alarm of a key.
func alarm(key, id string, when time.Time, score float64, pace keyed.Pace) []byte {
	m := keyed.Moments{Mean: []float64{0}, SD: []float64{1}}
	e := keyed.AlertEvent{Key: key, Time: when, ID: id, X: [][]float64{{1}}, Predicted: m, Alert: &keyed.Alert{Kind: "novelty", Score: score, Threshold: 4, Before: m, After: m, Usual: m}}
	event, _ := e.AppendBinary(nil) // never fails
	return appendNotice(nil, notice{key: key, time: when, pace: pace, event: event})
}

func newFleet(t *testing.T, cfg Config, listener Listener) *Fleet {
	t.Helper()
	f := expect.Get(New(cfg, listener))(t)
	return f
}

func take(t *testing.T, f *Fleet, notices []byte) {
	t.Helper()
	expect.OK(t, f.Process(notices))
}

func encoded(t *testing.T, f *Fleet) []byte {
	t.Helper()
	b := expect.Get(f.AppendBinary(nil))(t)
	return b
}

// Waiting alarms are reported even if the stored fleet has other separators, or is damaged in its incidents alone.
// The number of keys survives other separators.
func TestRestoreReset(t *testing.T) {
	f := newFleet(t, Config{}, &heard{})
	take(t, f, alarm("a/b", "f:1", start, 5, keyed.Pace{Step: time.Minute, Budget: time.Hour}))
	state := encoded(t, f)
	damaged := slices.Clone(state)
	damaged[1] ^= 0xff // the format of the incidents
	for name, c := range map[string]struct {
		separators string
		state      []byte
		reset      bool
	}{"same": {"", state, false}, "separators": {".", state, true}, "damaged": {"", damaged, true}} {
		var got heard
		f, reset, err := Restore(Config{Config: incidents.Config{Separators: c.separators}}, c.state, &got)
		if err != nil || (reset != nil) != c.reset {
			t.Fatalf("%s: %v, %v", name, reset, err)
		}
		expect.OK(t, f.Advance(start))
		expect.Same(t, heard{"a/b f:1 novelty"}, got, name)
	}
	expect.OK(t, f.Advance(start))
	other, reset, err := Restore(Config{Config: incidents.Config{Separators: "."}}, encoded(t, f), &heard{})
	if err != nil || reset == nil || other.MaxKeys() != 1 {
		t.Errorf("%v, %v, %d keys", reset, err, other.MaxKeys())
	}
	if _, reset, err := Restore(Config{}, state[:len(state)-1], &heard{}); err != nil || reset == nil {
		t.Errorf("a state that is cut short: %v, %v", reset, err)
	}
}

// An aListener records alerts with their incidents, and the members of the last event.
type aListener struct {
	heard
	members []incidents.Member
}

func (l *aListener) Alert(key string, t keyed.AlertEvent, incident string) {
	l.heard = append(l.heard, strings.TrimSpace(key+" "+t.ID+" "+incident))
}
func (l *aListener) Incident(e *incidents.Event) { l.members = e.Members }

// A report that an episode is worse is not another alarm. It waits for the watermark, has the incident of its episode,
// and updates the member, also after a restart. The next event has the new numbers, whatever the steps of the watermark
// are.
func TestWorse(t *testing.T) {
	l := &aListener{}
	f := newFleet(t, Config{}, l)
	report := func(key, id, onset string, when time.Time, size float64) []byte {
		m := keyed.Moments{Mean: []float64{0}, SD: []float64{1}}
		ep := &keyed.EpisodeReport{ID: onset, Since: start, State: keyed.EpisodeOpen, UsualBefore: m, Worst: keyed.Worst{Time: when, Value: size, Size: size}}
		if id != onset {
			ep.State = keyed.EpisodeWorse
		}
		e := keyed.AlertEvent{Key: key, Time: when, ID: id, X: [][]float64{{1}}, Predicted: m, Alert: &keyed.Alert{Kind: "novelty", Score: math.Abs(size), Size: size, Threshold: 4, Before: m, After: m, Usual: m, Episode: ep}}
		event, _ := e.AppendBinary(nil) // never fails
		return appendNotice(nil, notice{key: key, time: when, pace: keyed.Pace{Step: time.Minute, Budget: 7 * 24 * time.Hour}, event: event})
	}
	onsets := start.Add(30 * 24 * time.Hour)
	for i := range 12 {
		key := fmt.Sprint("a/", i)
		take(t, f, appendNotice(nil, notice{key: key, time: start, pace: keyed.Pace{Step: time.Minute, Budget: 7 * 24 * time.Hour}}))
		if i < 6 {
			take(t, f, report(key, key+":1", key+":1", onsets, -5))
		}
	}
	take(t, f, report("a/0", "a/0:2", "a/0:1", onsets.Add(2*time.Minute), -9))
	take(t, f, report("a/1", "a/1:2", "a/1:1", onsets.Add(2*time.Minute), 4)) // less than at its onset
	take(t, f, report("b/0", "b/0:2", "b/0:1", onsets.Add(2*time.Minute), 4)) // in no incident
	waiting := encoded(t, f)
	expect.OK(t, f.Advance(onsets))
	if len(l.heard) != 6 || len(l.members) != 6 || l.members[0].Episode.ID != "a/0:1" || l.members[0].Size != -5 {
		t.Fatalf("%v, members %+v", l.heard, l.members)
	}
	first, members := l.heard, l.members
	incident := strings.TrimPrefix(first[0], "a/0 a/0:1 ")
	l.heard = nil
	f, reset, err := Restore(Config{}, encoded(t, f), l)
	if err != nil || reset != nil {
		t.Fatal(err, reset)
	}
	expect.OK(t, f.Advance(onsets.Add(2*time.Minute)))
	expect.Same(t, heard{"a/0 a/0:2 " + incident, "a/1 a/1:2 " + incident, "b/0 b/0:2"}, l.heard)
	if members[0].Episode.Worst.Size != -5 {
		t.Error("an event of before has changed")
	}
	expect.OK(t, f.Advance(onsets.Add(2*time.Hour)))
	m := l.members[0]
	expect.Same(t, incidents.Worst{Time: onsets.Add(2 * time.Minute), Value: -9, Size: -9}, m.Episode.Worst)
	whole := &aListener{}
	again, _, err := Restore(Config{}, waiting, whole)
	expect.OK(t, err)
	expect.OK(t, again.Advance(onsets.Add(2*time.Hour)))
	if diff := cmp.Diff(l.members, whole.members, cmpopts.IgnoreUnexported(incidents.Member{})); diff != "" {
		t.Errorf("one step of the watermark (-several +one): %s", diff)
	}
	if len(l.members) != 6 || m.Key != "a/0" || m.Score != 9 || m.Size != -9 || !m.Time.Equal(onsets) || l.members[1].Size != -5 {
		t.Errorf("%+v", l.members)
	}
}

// An alarm that must not join an incident is reported at once, and does not change the fleet.
func TestAppendAlone(t *testing.T) {
	var got heard
	f := newFleet(t, Config{Digests: []time.Duration{24 * time.Hour}}, &got)
	before := encoded(t, f)
	f.Changed()
	e := keyed.AlertEvent{Key: "a/b", Time: start, ID: "f:1", Alert: &keyed.Alert{Kind: keyed.SilentAlarm}}
	take(t, f, AppendAlone(nil, "a/b", []keyed.AlertEvent{e}))
	expect.Same(t, heard{"a/b f:1 silent"}, got)
	if f.Changed() || !bytes.Equal(before, encoded(t, f)) {
		t.Error("it has changed the fleet")
	}
}

// If a key is forgotten during a run, its waiting alarms are reported, and the fleet has no trace of it. Forget on
// a stored state reports nothing and leaves the other keys unchanged.
func TestForget(t *testing.T) {
	var got heard
	f := newFleet(t, Config{Config: incidents.Config{Separators: "."}, Digests: []time.Duration{24 * time.Hour}}, &got)
	for i, key := range []string{"a.b", "the.secret"} {
		for j, when := range []time.Time{start, start.Add(time.Hour)} {
			take(t, f, alarm(key, fmt.Sprint(key, ":", j), when, float64(i), keyed.Pace{Step: time.Minute, Budget: time.Hour}))
		}
	}
	if err := f.Advance(start); err != nil || len(got) != 2 {
		t.Fatal(got, err)
	}
	state := encoded(t, f)
	got = nil
	take(t, f, AppendForgotten(nil, "the.secret"))
	expect.Same(t, heard{"the.secret the.secret:1 novelty"}, got)
	rest, names, err := Forget(state, func(key string) bool { return strings.HasPrefix(key, "the.") })
	if err != nil || len(names) != 1 || !names["the.secret"] {
		t.Fatal(names, err)
	}
	for name, b := range map[string][]byte{"a run": encoded(t, f), "a state": rest} {
		if bytes.Contains(b, []byte("secret")) || !bytes.Contains(b, []byte("a.b:1")) {
			t.Errorf("%s: %q", name, b)
		}
		if !bytes.Equal(b, rest) {
			t.Errorf("%s: the states differ", name)
		}
	}
	same, names, err := Forget(state, func(string) bool { return false })
	if err != nil || len(names) != 0 || !bytes.Equal(same, state) {
		t.Errorf("no key was removed, but the state has changed: %v", err)
	}
	if _, _, err := Forget(state[:len(state)-1], func(string) bool { return true }); err == nil {
		t.Error("a state that is cut short is accepted")
	}
}

// An alarm outside incidents becomes a page eight steps after it was processed, even after a restart.
func TestSinglePage(t *testing.T) {
	var got heard
	cfg := Config{Config: incidents.Config{MaxSinglePages: 3}}
	f := newFleet(t, cfg, &got)
	take(t, f, alarm("a/b", "f:1", start, 15, keyed.Pace{Step: time.Minute, Budget: time.Hour}))
	expect.OK(t, f.Advance(start.Add(7*time.Minute)))
	expect.Same(t, heard{"a/b f:1 novelty"}, got, "before")
	if next, _ := f.Next(); !next.Equal(start.Add(8 * time.Minute)) {
		t.Errorf("next at %v", next)
	}
	f, _, err := Restore(cfg, encoded(t, f), &got)
	expect.OK(t, err)
	expect.OK(t, f.Advance(start.Add(8*time.Minute)))
	expect.Same(t, heard{"a/b f:1 novelty", "page a/b f:1 novelty"}, got)
	expect.Same(t, 0, len(f.pageCandidates), "alarms that are kept")
}

// A page outside incidents has the last report of its episode. Later reports and the end of the episode follow it,
// whatever the steps of the watermark are, also after a restart. The end of an alarm that is no page is no page.
func TestSinglePageFollowed(t *testing.T) {
	cfg := Config{Config: incidents.Config{MaxSinglePages: 3}}
	m := keyed.Moments{Mean: []float64{0}, SD: []float64{1}}
	notices := func(key string, worse, end int) (b []byte) {
		add := func(minute int, id, kind string, state keyed.EpisodeState) {
			when := start.Add(time.Duration(minute) * time.Minute)
			ep := &keyed.EpisodeReport{ID: key + ":0", Since: start, State: state, UsualBefore: m, Worst: keyed.Worst{Time: when, Value: 9, Size: 9}}
			e := keyed.AlertEvent{Key: key, Time: when, ID: id, X: [][]float64{{1}}, Predicted: m, Alert: &keyed.Alert{Kind: kind, Score: 15, Threshold: 4, Before: m, After: m, Usual: m, Episode: ep}}
			event, _ := e.AppendBinary(nil) // never fails
			b = appendNotice(b, notice{key: key, time: when, pace: keyed.Pace{Step: time.Minute, Budget: time.Hour}, event: event})
		}
		add(0, key+":0", "novelty", keyed.EpisodeOpen)
		add(worse, fmt.Sprint(key, ":", worse), "novelty", keyed.EpisodeWorse)
		if worse+12 < end {
			add(worse+12, fmt.Sprint(key, ":", worse+12), "novelty", keyed.EpisodeWorse)
		}
		add(end, key+":0", "recovered", keyed.EpisodeClosed)
		return b
	}
	for _, c := range []struct {
		worse, end int
		want       []string
	}{
		{3, 40, []string{"page a a:3 novelty", "page a a:15 novelty", "page a a:0 recovered"}},
		{10, 40, []string{"page a a:0 novelty", "page a a:10 novelty", "page a a:22 novelty", "page a a:0 recovered"}},
		{3, 7, []string{"page a a:3 novelty", "page a a:0 recovered"}},
	} {
		for _, step := range []int{1, 5, 60} {
			var got heard
			f := newFleet(t, cfg, &got)
			take(t, f, notices("a", c.worse, c.end))
			for minute := 0; minute <= 60; minute += step {
				expect.OK(t, f.Advance(start.Add(time.Duration(minute)*time.Minute)))
				restored, reset, err := Restore(cfg, encoded(t, f), &got)
				expect.OK(t, errors.Join(reset, err))
				f = restored
			}
			pages := slices.DeleteFunc(slices.Clone(got), func(s string) bool { return !strings.HasPrefix(s, "page") })
			expect.Same(t, c.want, []string(pages), fmt.Sprint(c.worse, c.end, step))
			expect.Same(t, 0, len(f.pageCandidates), "alarms that are kept")
		}
	}
}

// Open incidents are closed if the next run has other groups, so that their receivers do not wait for an end.
func TestRestoreClosesIncidents(t *testing.T) {
	var got heard
	f := newFleet(t, Config{}, &got)
	pace := keyed.Pace{Step: time.Minute, Budget: 7 * 24 * time.Hour}
	for i := range 8 {
		take(t, f, appendNotice(nil, notice{key: fmt.Sprint("a/", i), time: start.Add(-7 * 24 * time.Hour), pace: pace}))
		take(t, f, alarm(fmt.Sprint("a/", i), fmt.Sprint("f:", i), start, 9, pace))
	}
	expect.OK(t, f.Advance(start))
	expect.Same(t, "opened a", got[len(got)-1])
	got = nil
	_, reset, err := Restore(Config{Config: incidents.Config{Separators: "."}}, encoded(t, f), &got)
	expect.OK(t, err)
	expect.Same(t, true, reset != nil)
	expect.Same(t, heard{"closed a"}, got)
}
