package pipeline

import (
	"testing"

	"hafvf/internal/portable"
)

// Flink finds the states in a savepoint by the names of steps. These are the names of
// earlier versions, with which their savepoints resume.
func TestNamesOfEarlierVersions(t *testing.T) {
	const text = "model: {family: normal}\nsource: {kafka: {brokers: [\"a:1\"], topics: [saved-in]}}\nsink: {kafka: {topic: out}}\ndead_letter: {kafka: {topic: rejected}}\n"
	for runner, names := range map[string][]string{
		"runner: {name: flink, endpoint: \"a:2\"}\n": {
			"Source 17733d83dacc/kafkaio.Read/kafkaio.readersFn", "Transform ac1f9fc9a428/hafvf.Filter/256 cells/transforms.packFn",
			"kafkaio.Write/Reshuffle/e10_unreify", "kafkaio.Write/Reshuffle'1/e15_unreify",
		},
		"runner: {name: flink, endpoint: \"a:2\", cells: 0}\n": {"Transform ac1f9fc9a428/hafvf.Filter/transforms.packFn"},
	} {
		pb, err := portable.Marshal(compose(t, text+runner).build(attended, true), "a:3", nil)
		if err != nil {
			t.Fatal(err)
		}
		has := map[string]bool{}
		for _, step := range pb.GetComponents().GetTransforms() {
			has[step.GetUniqueName()] = true
		}
		for _, name := range names {
			if !has[name] {
				t.Errorf("with %sthere is no step %s", runner, name)
			}
		}
	}
}

// A step's name stays where its states can be carried over, and changes where they cannot.
func TestNameOfTheFilter(t *testing.T) {
	const text = "source: {jsonl: {path: in.jsonl}}\n"
	name := func(more string) string { return compose(t, text+more).transform.name(false) }
	was := name("model: {family: normal}\n")
	for more, same := range map[string]bool{
		"model: {family: normal, prior: {kappa: 2}}\nlevels: []\ntop: .9\n":                 true,
		"model: {family: normal}\ndetect: true\ntime_unit: 1m\norder: arrival\n":            true,
		"model: {family: normal}\nkeys: [{match: a, levels: [], top: .9}]\nsilence: true\n": true,
		"model: {family: normal, scale: log}\n":                                             false,
		"model: {family: poisson}\n":                                                        false,
	} {
		if got := name(more); got == was != same {
			t.Errorf("%q has the name %s, and without it is %s", more, got, was)
		}
	}
}
