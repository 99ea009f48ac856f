package kafkaio

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"hafvf/internal/testing/expect"
)

var (
	schedules = flag.Int("schedules", 50, "minimum number of schedules that TestSimulation runs")
	forTime   = flag.Duration("for", 0, "how long TestSimulation draws schedules")
	firstSeed = flag.Int("first-seed", 1, "seed of TestSimulation's first batch of schedules")
	rates     = flag.Bool("rates", false, "measure how many schedules it takes to find each bug that the simulation knows")
)

// outlasting is longer than the maximum duration of a transaction.
const outlasting = transactionTime + 5*time.Minute

// drawn generates schedules. They start with a process; in half of them, records come first.
var drawn = func() *rapid.Generator[schedule] {
	pause := rapid.SampledFrom([]time.Duration{0, 0, 10 * time.Millisecond, 300 * time.Millisecond, time.Second, 1100 * time.Millisecond, 3 * time.Second, 10 * time.Second})
	expires := rapid.SampledFrom([]time.Duration{simExpire + time.Millisecond, simExpire + time.Second, simExpire + 3*time.Second})
	lasts := rapid.SampledFrom([]time.Duration{100 * time.Millisecond, time.Second, 5 * time.Second, 15 * time.Second, 45 * time.Second, 5 * time.Minute, outlasting})
	common := rapid.SampledFrom([]op{feed, feed, feed, pulse, pulse, pulse, start, start, start, stop, kill, trapped, trapped, trapped, trapped, hold, refuse, brokers, brokers, move, grow, shrink, look, reset, widen, backup, backup, copied, flip, flip})
	request := rapid.OneOf(rapid.IntRange(0, 4), rapid.IntRange(0, len(trappable)-1)) // the first five are those of a commit
	one := rapid.Custom(func(t *rapid.T) step {
		s := step{Op: common.Draw(t, "op"), Then: pause.Draw(t, "then")}
		switch s.Op {
		case feed:
			s.A, s.B = rapid.IntRange(1, 20).Draw(t, "records"), rapid.IntRange(0, 9).Draw(t, "seed")
			s.C = int(rapid.SampledFrom([]misdate{noClock, noClock, noClock, noClock, noClock, noClock, aPartitions, aKeys, farAhead}).Draw(t, "wrong"))
		case pulse:
			s.A, s.B, s.D = rapid.IntRange(1, 10).Draw(t, "records"), rapid.IntRange(0, 9).Draw(t, "seed"), expires.Draw(t, "gap")
		case trapped:
			s.A, s.B, s.C = request.Draw(t, "request"), rapid.IntRange(0, 2).Draw(t, "nth"), rapid.IntRange(0, int(faults)-2).Draw(t, "fault")
			s.D = lasts.Draw(t, "delay")
		case hold, refuse:
			s.A, s.D = rapid.IntRange(0, 1).Draw(t, "process"), lasts.Draw(t, "time")
			if s.D == outlasting {
				s.Then = s.D + time.Minute
			}
		case brokers:
			s.A, s.B, s.C = rapid.IntRange(0, len(passing)-1).Draw(t, "request"), rapid.IntRange(0, 3).Draw(t, "times"), rapid.IntRange(0, 3).Draw(t, "error")
		case stop, kill:
			s.A = rapid.IntRange(0, 1).Draw(t, "process")
		case reset:
			s.A, s.B = rapid.IntRange(0, 3).Draw(t, "partition"), rapid.IntRange(1, 10).Draw(t, "back")
		}
		return s
	})
	return rapid.Custom(func(t *rapid.T) schedule {
		s := schedule{{Op: start, Then: pause.Draw(t, "then")}}
		if rapid.IntRange(0, 2).Draw(t, "age") == 0 {
			s = append(schedule{{Op: age}}, s...)
		} else if rapid.Bool().Draw(t, "records first") {
			s = append(schedule{{Op: feed, A: 10}}, s...)
		}
		if rapid.IntRange(0, 3).Draw(t, "gather") == 0 {
			s = append(schedule{{Op: gather}}, s...)
		}
		s = append(s, rapid.SliceOfN(one, 0, 14).Draw(t, "steps")...)
		// After these ops a run must be refused, so they come last.
		if last := rapid.SampledFrom([]op{feed, feed, feed, feed, feed, feed, recreate, lose, rollback, halve}).Draw(t, "last"); last != feed {
			s = append(s, step{Op: last, A: rapid.IntRange(4, 5).Draw(t, "A")})
		}
		return s
	})
}()

// TestSimulation checks the claim on schedules that rapid draws. If a schedule contradicts it, rapid shrinks the
// schedule. Each batch has a seed:
//
//	go test ./connectors/kafkaio -run '^TestSimulation$' -for 1h -timeout 2h
func TestSimulation(t *testing.T) {
	t.Parallel()
	const batch = 50
	wanted := *schedules
	if testing.Short() {
		wanted /= 2
	}
	set := func(name, value string) {
		prev := flag.Lookup(name).Value.String()
		expect.OK(t, flag.Set(name, value))
		t.Cleanup(func() { flag.Set(name, prev) })
	}
	set("rapid.checks", fmt.Sprint(batch))
	set("rapid.nofailfile", "true")
	begin, n := time.Now(), 0
	var dropped, returned, again int // numbers of schedules, see lives
	count := func(n *int, did bool) {
		if did {
			*n++
		}
	}
	for seed := *firstSeed; (n < wanted || time.Since(begin) < *forTime) && !t.Failed(); seed++ {
		set("rapid.seed", fmt.Sprint(seed))
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			rapid.Check(t, func(r *rapid.T) {
				n++
				s := drawn.Draw(r, "schedule")
				bad, did := simulate(t, s, "")
				count(&dropped, did.dropped)
				count(&returned, did.returned)
				count(&again, did.again)
				if len(bad) > 0 {
					r.Fatalf("%v\n%s", s, strings.Join(bad, "\n"))
				}
			})
		})
	}
	t.Logf("%d schedules in %v; keys expire in %d, return in %d, and expire again in %d", n, time.Since(begin).Round(time.Second), dropped, returned, again)
	if again == 0 && !t.Failed() {
		t.Error("no schedule has keys that expire again")
	}
}

// TestSimulationFinds: for each bug, there is a schedule that fails with the bug and succeeds without it.
func TestSimulationFinds(t *testing.T) {
	expect.Long(t, "a schedule for each bug")
	t.Parallel()
	for _, c := range []struct {
		bug      bug
		schedule schedule
		shows    string
	}{
		// The process dies when the broker has the offsets of its first commit.
		{offsetsFirst, schedule{{feed, 10, 0, 0, 0, 0}, {start, 0, 0, 0, 0, 0}, {trapped, 3, 0, 4, 0, 3 * time.Second}},
			"the offset of in-0 is 7, and the state of key30 includes records up to -1, not 0"},
		// The process dies before it ends its first transaction. The next process does not abort that transaction, so
		// its own states stay invisible after it.
		{noFence, schedule{{feed, 10, 0, 0, 0, 0}, {start, 0, 0, 0, 0, 0}, {trapped, 4, 0, 3, 0, 3 * time.Second}},
			"the offset of in-0 is 7, and the state of key30 includes records up to -1, not 0"},
		{blindToTopic, schedule{{feed, 10, 0, 0, 0, 0}, {start, 0, 0, 0, 0, 3 * time.Second}, {recreate, 5, 0, 0, 0, 0}},
			"does not occur without faults"},
		{blindToStates, schedule{{feed, 10, 0, 0, 0, 0}, {start, 0, 0, 0, 0, 3 * time.Second}, {lose, 0, 0, 0, 0, 0}},
			"the offset of in-0 is 7, and the state of key30 includes records up to -1, not 0"},
		// The answer to the first request is lost.
		{impatientFirst, schedule{{start, 0, 0, 0, 0, time.Second}, {trapped, 9, 0, 0, 0, 0}, {feed, 10, 0, 0, 0, 20 * time.Second}},
			"a run ended because of transient faults"},
		// The process dies while a broker does not accept the outputs.
		{storedTooSoon, schedule{{start, 0, 0, 0, 0, time.Second}, {brokers, 0, 9, 0, 0, 0}, {feed, 10, 0, 0, 0, 1500 * time.Millisecond}, {kill, 0, 0, 0, 0, 0}},
			`has the output ""`},
		{learnsRepeats, schedule{{feed, 10, 0, 0, 0, 0}, {start, 0, 0, 0, 0, 3 * time.Second}, {reset, 0, 5, 0, 0, 0}},
			"does not occur without faults"},
		{blindToAge, schedule{{feed, 10, 0, 0, 0, 0}, {start, 0, 0, 0, 0, 3 * time.Second}, {backup, 0, 0, 0, 0, 0}, {feed, 10, 1, 0, 0, 3 * time.Second}, {rollback, 0, 0, 0, 0, 0}},
			"a start must be refused with \"is older than the offsets\""},
		{blindToGaps, schedule{{feed, 10, 0, 0, 0, 0}, {start, 0, 0, 0, 0, 3 * time.Second}, {halve, 1, 0, 0, 0, 0}},
			"includes records up to -1"},
		{followsCount, schedule{{feed, 10, 0, 0, 0, 0}, {start, 0, 0, 0, 0, 3 * time.Second}, {widen, 0, 0, 0, 0, 0}, {feed, 10, 1, 0, 0, 0}},
			"where it does not belong"},
		// The process dies while the receiver is away.
		{forgetsAlerts, schedule{{flip, 0, 0, 0, 0, 0}, {feed, 10, 0, 0, 0, 0}, {start, 0, 0, 0, 0, 3 * time.Second}, {kill, 0, 0, 0, 0, 0}},
			`the receiver has "" for the alert of`},
		{trustsTimes, schedule{{start, 0, 0, 0, 0, time.Second}, {feed, 10, 0, int(aKeys), 0, 3 * time.Second}},
			"the watermark is ahead of the clock by 29m5"},
		{followsClock, schedule{{start, 0, 0, 0, 0, time.Second}, {feed, 10, 0, int(farAhead), 0, 3 * time.Second}},
			"with the right time is behind the watermark by 2m"},
		{keepsExpired, schedule{{start, 0, 0, 0, 0, 0}, {feed, 10, 0, 0, 0, 0}},
			"the changelog has a state of key0, which has expired"},
		// The process dies when keys have returned.
		{losesReturned, schedule{{start, 0, 0, 0, 0, 0}, {feed, 10, 0, 0, 0, simExpire + 3*time.Second}, {feed, 10, 0, 0, 0, 3 * time.Second}, {kill, 0, 0, 0, 0, 0}},
			"the offset of in-0 is 18, and the state of key0 includes records up to 10, not 16"},
		{clockExpires, schedule{{age, 0, 0, 0, 0, 0}, {feed, 10, 0, 0, 0, 0}, {start, 0, 0, 0, 0, 10 * time.Second}, {feed, 10, 0, 0, 0, 0}},
			"but without faults"},
		// The process dies while the windows of the first and of the second records are open.
		{settlesHeld, schedule{{gather, 0, 0, 0, 0, 0}, {feed, 10, 0, 0, 0, 0}, {start, 0, 0, 0, 0, 3 * time.Second}, {kill, 0, 0, 0, 0, 0}},
			"is in 0 groups, and late: false"},
		// The process dies when one window has fired and others are open.
		{forgetsSteps, schedule{{gather, 0, 0, 0, 0, 0}, {feed, 10, 0, 0, 0, 0}, {start, 0, 0, 0, 0, 3 * time.Second}, {feed, 10, 3, 0, 0, 3 * time.Second}, {kill, 0, 0, 0, 0, 0}},
			"is in 1 groups, and late: true"},
	} {
		t.Run(string(c.bug), func(t *testing.T) {
			bad, _ := simulate(t, c.schedule, c.bug)
			if bad := strings.Join(bad, "\n"); !strings.Contains(bad, c.shows) {
				t.Errorf("with the bug it shows %q\nwant %s", bad, c.shows)
			}
			if bad, _ := simulate(t, c.schedule, ""); len(bad) > 0 {
				t.Errorf("without the bug: %s", strings.Join(bad, "\n"))
			}
		})
	}
}

// TestSimulationFound runs schedules that once found a fault. With the fault, such a schedule may fail in only one of
// several runs, because events at the same instant have no order.
func TestSimulationFound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		schedule schedule
		runs     int
	}{
		// A broker closes a connection at its first request, of the last commit. franz-go considered that a wrong
		// login, and the run ended with exit code 1 in 29 of 400 runs.
		"the first request": {schedule{{start, 0, 0, 0, 0, time.Second}, {trapped, 4, 2, 0, 100 * time.Millisecond, 0}, {trapped, 4, 1, 0, 15 * time.Second, 0},
			{feed, 19, 2, 0, 0, 300 * time.Millisecond}, {stop, 1, 0, 0, 0, 1100 * time.Millisecond}, {kill, 1, 0, 0, 0, time.Second}, {feed, 9, 4, 0, 0, 0}}, 12},
		// All keys have expired when an offset is set by hand. The run concluded that the changelog had never had
		// states, and was always refused.
		"nobody is left": {schedule{{start, 0, 0, 0, 0, 0}, {feed, 10, 0, 0, 0, simExpire + 3*time.Second}, {reset, 0, 1, 0, 0, 0}}, 1},
		// The offset of a partition with times ahead of the clock is set by hand. The run did not know how far its
		// times had come, and expired keys were never reset.
		"a partition's times": {schedule{{start, 0, 0, 0, 0, 10 * time.Second}, {feed, 16, 5, int(aKeys), 0, 3 * time.Second}, {reset, 3, 2, 0, 0, 300 * time.Millisecond}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			for range c.runs {
				if bad, _ := simulate(t, c.schedule, ""); len(bad) > 0 {
					t.Fatal(strings.Join(bad, "\n"))
				}
			}
		})
	}
}

// TestSimulationCompacts: while a transaction of several batches is open, compaction must not drop earlier states.
// With large batches, this happened in one of 45 runs.
func TestSimulationCompacts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		defer w.close()
		w.must(w.cluster.CreateTopic(simStates, w.logs, map[string]string{"cleanup.policy": "compact", "max.message.bytes": "512"}))
		for _, s := range (schedule{{feed, 20, 0, 0, 0, 0}, {start, 0, 0, 0, 0, 3 * time.Second}, {shrink, 0, 0, 0, 0, 0}, {look, 0, 0, 0, 0, 0},
			{trapped, 4, 0, int(delayRequest) - 1, 45 * time.Second, 0}, {feed, 20, 0, 0, 0, 3 * time.Second}, {shrink, 0, 0, 0, 0, 0}, {look, 0, 0, 0, 0, 0}}) {
			w.do(s)
			time.Sleep(s.Then)
		}
		if len(w.committed()) == 0 || w.failed() {
			t.Errorf("at %v: %v", w.committed(), w.bad)
		}
	})
}

// TestSimulationRates measures how many schedules it takes to find each bug.
func TestSimulationRates(t *testing.T) {
	if !*rates {
		t.Skip("a measurement: run it with -rates")
	}
	const seeds, maxSchedules = 10, 400
	for _, b := range []bug{offsetsFirst, noFence, blindToTopic, blindToStates, impatientFirst, storedTooSoon, learnsRepeats, blindToAge, blindToGaps, followsCount, forgetsAlerts, trustsTimes, followsClock, keepsExpired, losesReturned, clockExpires, settlesHeld, forgetsSteps} {
		var took []int
		var shortest schedule
		said := ""
		for seed := range seeds {
			n := 1
			for ; n <= maxSchedules; n++ {
				s := drawn.Example(seed*maxSchedules + n)
				if bad, _ := simulate(t, s, b); len(bad) > 0 {
					if shortest == nil || len(s) < len(shortest) {
						shortest, said = s, bad[0]
					}
					break
				}
			}
			took = append(took, n)
		}
		slices.Sort(took)
		t.Logf("%s: found after %v schedules (%d: not found), median %d; the shortest is\n%v\n%s", b, took, maxSchedules+1, (took[seeds/2-1]+took[seeds/2])/2, shortest, said)
	}
}
