package backtest

import (
	"errors"
	"fmt"
	"image/color"
	"slices"
	"time"

	"hafvf/cmd/hafvf/chart"
	"hafvf/hafvf"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/usual"
)

// picturedKeys is how many keys a picture shows.
const picturedKeys = 20

// ErrNoPicture says that a report has no picture.
var ErrNoPicture = errors.New("the records have no times, which a picture needs")

// Picture draws the alarms of the noisiest keys, and of those with windows, by week against
// what their budget allows. left is the number of keys that it leaves out.
func (r *Report) Picture() (f *chart.Figure, left int, err error) {
	if r.Last.IsZero() {
		return nil, 0, ErrNoPicture
	}
	timed := slices.DeleteFunc(slices.Clone(r.ByKey), func(k Key) bool { return k.first.IsZero() })
	shown := slices.DeleteFunc(slices.Clone(timed), func(k Key) bool { return k.Alerts.total() == 0 && len(k.windows) == 0 })
	if len(shown) == 0 {
		shown = timed
	}
	shown = shown[:min(len(shown), picturedKeys)]
	f = &chart.Figure{Title: "alarms of " + r.Config + ", by week", Width: 890, OneLegend: true}
	columns := 1
	if len(shown) > 6 {
		columns = 2
	}
	for some := range slices.Chunk(shown, columns) {
		row := chart.Row{Height: 110, Stacks: make([]chart.Stack, columns)}
		for i, k := range some {
			row.Stacks[i] = r.stack(k)
		}
		f.Rows = append(f.Rows, row)
	}
	return f, len(r.ByKey) - len(shown), nil
}

// stack draws a key.
func (r *Report) stack(k Key) chart.Stack {
	var layers []chart.Layer
	for _, kind := range kinds {
		var x []float64
		for _, e := range k.events {
			if e.Kind == kind {
				x = append(x, unix(e.Time))
			}
		}
		if x != nil {
			layers = append(layers, chart.Flags{Name: kind, X: x, Color: flagColors[kind]})
		}
	}
	x, counts := k.steps(k.events, r.zone)
	top := slices.Max(counts)
	layers = append(layers, chart.Band{Name: "alarms a week", X: x, Low: make([]float64, len(x)), High: counts, Color: chart.Blue})
	if a := r.Against; a != nil {
		i := slices.IndexFunc(a.Report.ByKey, func(o Key) bool { return o.Key == k.Key })
		if i >= 0 {
			x, counts := k.steps(a.Report.ByKey[i].events, r.zone)
			top = max(top, slices.Max(counts))
			layers = append(layers, chart.Line{Name: "with " + a.Report.Config, X: x, Y: counts, Color: chart.Black, Width: 1})
		}
	}
	note := "in the warm-up"
	if p := float64(k.ObservationsPerAlarm); p > 0 {
		if weeks := k.last.Sub(k.first).Hours() / week.Hours(); weeks > 0 {
			allowed := float64(k.Records) / weeks / p
			layers = append(layers, chart.Threshold{Name: "budget a week", Y: allowed, Color: chart.Vermilion})
			top = max(top, allowed)
		}
		note = fmt.Sprintf("%d raised, %s allowed", k.Budget.Spent, decimal(k.Budget.Allowed))
	}
	var hit, missed [][2]float64
	for _, w := range k.windows {
		if w.outside(k.first, k.last) {
			continue
		}
		span := [2]float64{unix(w.Start), unix(w.End)}
		if slices.ContainsFunc(k.events, w.holds) {
			hit = append(hit, span)
		} else {
			missed = append(missed, span)
		}
	}
	if hit != nil {
		layers = append(layers, chart.Spans{Name: "window, hit", X: hit, Color: paleGreen})
	}
	if missed != nil {
		layers = append(layers, chart.Spans{Name: "window, missed", X: missed, Color: paleOrange})
	}
	return chart.Stack{
		Title: k.Key, Note: note,
		X:      chart.Axis{Time: true, Min: unix(k.first), Max: unix(k.last)},
		Panels: []chart.Panel{{Share: 1, Min: 0, Max: 1.15 * max(top, 1), Ticks: 3, Layers: layers}},
	}
}

// The colours of windows are those of the palette on white, so that bars show before them.
var (
	paleGreen  = color.NRGBA{0xb3, 0xe2, 0xd5, 0xff}
	paleOrange = color.NRGBA{0xf7, 0xdf, 0xa8, 0xff}
)

// flagColors are those of alerts by kind.
var flagColors = map[string]color.NRGBA{
	string(usual.NoveltyAlarm): chart.Vermilion, string(usual.ChangeAlarm): chart.Blue, string(hafvf.Outlier): chart.Gray,
	string(hafvf.Revision): chart.Gray, keyed.SilentAlarm: chart.Purple, keyed.RecoveredAlarm: chart.Green,
}

// steps are the numbers of alarms that are paid from the budget, by week of the key's
// records in the zone, as a line of steps.
func (k Key) steps(events []Event, zone *time.Location) (x, counts []float64) {
	paid := map[time.Time]float64{}
	for _, e := range events {
		if e.Kind == string(usual.NoveltyAlarm) || e.Kind == string(usual.ChangeAlarm) {
			paid[mondayOf(e.Time, zone)]++
		}
	}
	for monday := mondayOf(k.first, zone); !monday.After(k.last); {
		next := mondayOf(monday.Add(week+week/2), zone)
		x = append(x, max(unix(monday), unix(k.first)), min(unix(next), unix(k.last)))
		counts = append(counts, paid[monday], paid[monday])
		monday = next
	}
	return x, counts
}

func unix(t time.Time) float64 { return float64(t.UnixMilli()) / 1e3 }
