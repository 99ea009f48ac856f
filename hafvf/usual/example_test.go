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
		x := 20 - 5*math.Cos(2*math.Pi*hour/24) + .5*math.Sin(float64(17*i*i)) // noise, to the eye
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
	alarm, err := usual.NewAlarm(usual.DefaultBudget, usual.DefaultRest)
	if err != nil {
		panic(err)
	}
	s, a := profile.NewState(), alarm.NewState()
	alarm.SetBudget(a, usual.BudgetOver(usual.DefaultBudgetTime, usual.MedianStep(times[:warmUp])))
	for i, x := range xs {
		score := profile.Update(s, times[i], []float64{(x - location) / scale}).Score
		if i < warmUp {
			continue
		}
		if kind, threshold := alarm.Update(a, score, false, nil); kind != usual.NoAlarm {
			fmt.Printf("%s  %s  score %.1f, threshold %.1f\n", times[i].Format(time.DateTime), kind, score, threshold)
		}
	}
	// Output:
	// 2026-06-20 10:00:00  novelty  score 8.8, threshold 2.8
}

func ExampleAlarm() {
	alarm, err := usual.NewAlarm(100, 10)
	if err != nil {
		panic(err)
	}
	s := alarm.NewState()
	atNight := func(hour int) bool { return hour < 6 }
	for hour := range 24 {
		score := 1.0
		if hour%5 == 3 { // 3, 8, 13, 18, 23
			score = 4
		}
		kind, threshold := alarm.Update(s, score, hour == 21, func(usual.AlarmKind) bool { return !atNight(hour) })
		if kind != usual.NoAlarm {
			fmt.Printf("%02d:00  %s  threshold %.2f\n", hour, kind, threshold)
		}
	}
	// Output:
	// 08:00  novelty  threshold 2.00
	// 21:00  change  threshold 2.87
}
