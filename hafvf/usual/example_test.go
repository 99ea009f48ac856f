package usual_test

import (
	"fmt"
	"math"
	"time"

	"hafvf/hafvf/expfam"
	"hafvf/hafvf/usual"
)

func ExampleProfile() {
	const warmUp = 50
	var times []time.Time
	var xs []float64
	for i := range 21 * 96 {
		t := time.Date(2026, 6, 1, 0, 15*i, 0, 0, time.UTC)
		hour := t.Sub(t.Truncate(24 * time.Hour)).Hours()
		x := 20 - 5*math.Cos(2*math.Pi*hour/24) + .5*math.Sin(float64(17*i*i)) // looks like noise
		if t.Day() == 20 && hour >= 10 && hour < 15 {
			x = 20
		}
		times, xs = append(times, t), append(xs, x)
	}
	location, scale := expfam.LocationScale(xs[:warmUp])

	profile, err := usual.NewProfile(usual.DefaultProfile())
	if err != nil {
		panic(err)
	}
	step := usual.MedianStep(times[:warmUp])
	pace, err := usual.NewPace(usual.BudgetOver(usual.DefaultBudgetTime, step), step, usual.AutoRest, usual.DefaultSettling)
	if err != nil {
		panic(err)
	}
	alarm := usual.NewAlarm(pace)
	s, a := profile.NewState(), alarm.NewState()
	alarmed := false
	for i, x := range xs {
		score := profile.Update(s, pace, times[i], []float64{(x - location) / scale}).Score
		if i < warmUp {
			continue
		}
		if d := alarm.Update(a, score, usual.Context{Covered: alarmed}, nil); d.Alarm != usual.NoAlarm {
			alarmed = true
			fmt.Printf("%s  %s  score %.1f, threshold %.1f\n", times[i].Format(time.DateTime), d.Alarm, score, d.Threshold)
		}
	}
	// Output:
	// 2026-06-20 10:00:00  novelty  score 8.2, threshold 2.8
}

func ExampleAlarm() {
	pace, err := usual.NewPace(100, time.Hour, 10, usual.DefaultSettling)
	if err != nil {
		panic(err)
	}
	alarm := usual.NewAlarm(pace)
	s := alarm.NewState()
	atNight := func(hour int) bool { return hour < 6 }
	for i := range 120 {
		score, hour := 1.0, i%24
		if i >= 96 && hour%5 == 3 { // 3, 8, 13, 18, 23
			score = 4
		}
		d := alarm.Update(s, score, usual.Context{}, func(usual.AlarmKind) bool { return !atNight(hour) })
		if d.Alarm != usual.NoAlarm {
			fmt.Printf("%02d:00  %s  threshold %.2f\n", hour, d.Alarm, d.Threshold)
		}
	}
	// Output:
	// 08:00  novelty  threshold 2.45
	// 13:00  novelty  threshold 2.48
	// 18:00  novelty  threshold 2.95
	// 23:00  novelty  threshold 3.43
}
