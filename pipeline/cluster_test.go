package pipeline

import "testing"

// The name of the filter step stays if its states can be migrated, and changes if they cannot.
func TestNameOfTheFilter(t *testing.T) {
	const text = "source: {jsonl: {path: in.jsonl}}\n"
	name := func(settings string) string { return compose(t, text+settings).transform.name() }
	prev := name("model: {family: normal}\n")
	for settings, equal := range map[string]bool{
		"model: {family: normal, prior: {kappa: 2}}\nlevels: []\ntop: .9\n":                 true,
		"model: {family: normal}\ndetect: true\ntime_unit: 1m\norder: arrival\n":            true,
		"model: {family: normal}\nkeys: [{match: a, levels: [], top: .9}]\nsilence: true\n": true,
		"model: {family: normal, scale: log}\n":                                             false,
		"model: {family: poisson}\n":                                                        false,
	} {
		if got := name(settings); got == prev != equal {
			t.Errorf("%q has the name %s, and without it is %s", settings, got, prev)
		}
	}
}
