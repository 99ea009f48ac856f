package incidents_test

import (
	"fmt"
	"testing"
	"time"

	"hafvf/hafvf/incidents"
)

// go test ./hafvf/incidents -run - -bench Alarm
//
// Eight weeks of the simulation, repeated. A nightly job causes most of the bursts.
func BenchmarkAlarm(b *testing.B) {
	for _, keys := range []int{200, 2000, 20_000} {
		b.Run(fmt.Sprint("keys=", keys), func(b *testing.B) {
			s := simulation{keys: keys, causes: 20, job: true, shape: 5, daily: .5}
			names, alarms, _ := s.draw(1)
			b.ReportAllocs()
			var f *incidents.Fleet
			n := len(alarms)
			for b.Loop() {
				if n == len(alarms) {
					b.StopTimer()
					f, n = newFleet(b, incidents.Config{}), 0
					for _, k := range names {
						f.Register(k, simulated(0), time.Minute, week)
					}
					f.Advance(simulated(0))
					b.StartTimer()
				}
				f.Add(alarms[n].Alarm)
				f.Advance(alarms[n].Time.Add(-1))
				n++
			}
			state, _ := f.AppendBinary(nil)
			b.ReportMetric(float64(len(state))/float64(keys), "B/key")
		})
	}
}

// go test ./hafvf/incidents -run - -bench Burst
//
// All keys of a fleet alarm within five minutes.
func BenchmarkBurst(b *testing.B) {
	for _, keys := range []int{2000, 20_000, 100_000} {
		b.Run(fmt.Sprint("keys=", keys), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				f := newFleet(b, incidents.Config{MaxSinglePages: incidents.DefaultSingle})
				for i := range keys {
					k := fmt.Sprintf("s%d/r%d/h%d:m%d", i%10, i/10%20, i/200%(keys/1000), i)
					f.Register(k, begin, time.Minute, week)
					now := begin.Add(4*week + time.Duration(i)*5*time.Minute/time.Duration(keys))
					f.Add(incidents.Alarm{ID: fmt.Sprint(i), Key: k, Time: now, Score: 5})
				}
				f.Advance(begin)
				b.StartTimer()
				step := f.Advance(begin.Add(5 * week))
				b.StopTimer()
				if n := paged(step.Events); n != 1 {
					b.Fatalf("%d pages", n)
				}
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*keys), "ns/alarm")
		})
	}
}

// go test ./hafvf/incidents -run - -bench Restore
func BenchmarkRestore(b *testing.B) {
	for _, keys := range []int{2000, 20_000} {
		s := simulation{keys: keys, causes: 20, job: true, shape: 5, daily: .5}
		names, alarms, _ := s.draw(1)
		f := newFleet(b, incidents.Config{})
		for _, k := range names {
			f.Register(k, simulated(0), time.Minute, week)
		}
		for _, a := range alarms {
			f.Add(a.Alarm)
		}
		f.Advance(alarms[len(alarms)-1].Time)
		b.Run(fmt.Sprint("keys=", keys), func(b *testing.B) {
			b.ReportAllocs()
			var state []byte
			for b.Loop() {
				state, _ = f.AppendBinary(state[:0])
				if _, err := incidents.Restore(incidents.Config{}, state); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(state))/float64(keys), "B/key")
		})
	}
}
