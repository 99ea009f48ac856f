package records

import (
	"hafvf/hafvf"
	"hafvf/hafvf/keyed"
	"hafvf/internal/tabular"
)

// value is the observation as it came in.
func value[T any](get func(T) ([][]float64, keyed.Shape)) field[T] {
	return field[T]{
		name: "x", begin: begin("x"), takes: "number, or list of numbers", doc: "The observation as it came in; null if it is missing.",
		json: func(b []byte, _ *Layout, v T) []byte {
			x, shape := get(v)
			return appendValue(b, x, shape)
		},
		columns: func(path string, _ *Layout, x tabular.Kind) []tabular.Column {
			return []tabular.Column{{Path: path, Kind: x}}
		},
		cells: func(b []byte, _ *Layout, v T) []byte {
			x, shape := get(v)
			return append(appendValue(b, x, shape), '\t')
		},
		avro: func(string, *Layout) any { return avroValue },
	}
}

// events is the number of events of an aggregated observation.
func events[T any](get func(T) (n int64, aggregated bool)) field[T] {
	aggregated := func(v T) bool { _, is := get(v); return is }
	return only(count("events", "events", "Number of events in the interval; with aggregate only.", get), aggregated, func(l *Layout) bool { return l.Events })
}

// moments are a mean and a sd, numbers or lists as the layout has them.
func moments[T any](name, doc string, get func(T) keyed.Moments, more ...field[T]) field[T] {
	return object(name, doc, append([]field[T]{
		outputs("mean", "Mean; null if it does not exist.", func(v T) []float64 { return get(v).Mean }),
		outputs("sd", "Standard deviation; null if it is infinite.", func(v T) []float64 { return get(v).SD }),
	}, more...)...)
}

// outputs are a number for each output of the model: a list where the layout has vectors.
func outputs[T any](name, doc string, get func(T) []float64) field[T] {
	return field[T]{
		name: name, begin: begin(name), takes: "number, or list for vectors", doc: doc,
		json: func(b []byte, l *Layout, v T) []byte { return l.appendOutputs(b, get(v)) },
		columns: func(path string, l *Layout, _ tabular.Kind) []tabular.Column {
			kind := tabular.Number
			if l.Vector {
				kind = tabular.String
			}
			return []tabular.Column{{Path: path, Kind: kind}}
		},
		cells: func(b []byte, l *Layout, v T) []byte { return append(l.appendOutputs(b, get(v)), '\t') },
		avro: func(_ string, l *Layout) any {
			if l.Vector {
				return avroNumbers
			}
			return "double"
		},
	}
}

// levels are Beta distributions, of which get gives alpha and beta one after the
// other.
func levels[T any](doc string, get func(T) []float64) field[T] {
	return list("levels", doc, func(l *Layout) int { return l.Levels },
		func(v T) int { return len(get(v)) / 2 },
		func(v T, i int) hafvf.Beta { return hafvf.Beta{Alpha: get(v)[2*i], Beta: get(v)[2*i+1]} },
		number("alpha", "", "First parameter.", func(b hafvf.Beta) float64 { return b.Alpha }),
		number("beta", "", "Second parameter.", func(b hafvf.Beta) float64 { return b.Beta }),
	)
}

// posterior are the family's parameters by name.
func posterior[T any](get func(T) []float64) field[T] {
	return field[T]{
		name: "posterior", begin: begin("posterior"), takes: "object", doc: "The family's textbook parameters by name, as in model.prior.",
		json: func(b []byte, l *Layout, v T) []byte {
			b = append(b, '{')
			at, values := 0, get(v)
			for i, p := range l.Params {
				if i > 0 {
					b = append(b, ',')
				}
				b = appendText(b, p.Name)
				b = append(b, ':')
				b = appendParam(b, p, values[at:at+p.Size()])
				at += p.Size()
			}
			return append(b, '}')
		},
		columns: func(path string, l *Layout, _ tabular.Kind) (all []tabular.Column) {
			for _, p := range l.Params {
				kind := tabular.Number
				if p.Rows > 0 {
					kind = tabular.String
				}
				all = append(all, tabular.Column{Path: path + "." + p.Name, Kind: kind})
			}
			return all
		},
		cells: func(b []byte, l *Layout, v T) []byte {
			at, values := 0, get(v)
			for _, p := range l.Params {
				b = append(appendParam(b, p, values[at:at+p.Size()]), '\t')
				at += p.Size()
			}
			return b
		},
		avro: func(name string, l *Layout) any {
			of := &avroRecord{Type: "record", Name: name}
			for _, p := range l.Params {
				var kind any = "double"
				switch {
				case p.Rows > 0 && p.Cols > 0:
					kind = &avroList{"array", avroNumbers}
				case p.Rows > 0:
					kind = avroNumbers
				}
				of.add(p.Name, kind)
			}
			return of
		},
	}
}
