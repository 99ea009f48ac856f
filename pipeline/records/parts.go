package records

import (
	"hafvf/hafvf"
	"hafvf/hafvf/keyed"
	"hafvf/internal/tabular"
)

// value is the observation in the shape in which it was read.
func value[T any](get func(T) ([][]float64, keyed.Shape)) field[T] {
	return column("x", "number, or list of numbers", "", "The observation as it came in; null if it is missing.",
		func(_ *Layout, x tabular.Kind) tabular.Kind { return x }, func(*Layout) any { return avroValue },
		func(b []byte, _ *Layout, v T) []byte {
			x, shape := get(v)
			return appendValue(b, x, shape)
		})
}

// events is the number of events of an aggregated observation.
func events[T any](get func(T) (n int64, aggregated bool)) field[T] {
	aggregated := func(v T) bool { _, ok := get(v); return ok }
	return only(count("events", "events", "Number of events in the interval; with aggregate only.", get), aggregated, func(l *Layout) bool { return l.Events })
}

// moments is a mean and a standard deviation: numbers, or lists with Layout.Vector.
func moments[T any](name, doc string, get func(T) keyed.Moments, more ...field[T]) field[T] {
	return object(name, doc, append([]field[T]{
		outputs("mean", "Mean; null if it does not exist.", func(v T) []float64 { return get(v).Mean }),
		outputs("sd", "Standard deviation; null if it is infinite.", func(v T) []float64 { return get(v).SD }),
	}, more...)...)
}

// outputs is a number for each output of the model: a list with Layout.Vector.
func outputs[T any](name, doc string, get func(T) []float64) field[T] {
	return column(name, "number, or list for vectors", "", doc,
		func(l *Layout, _ tabular.Kind) tabular.Kind {
			if l.Vector {
				return tabular.String
			}
			return tabular.Number
		},
		func(l *Layout) any {
			if l.Vector {
				return avroNumbers
			}
			return "double"
		},
		func(b []byte, l *Layout, v T) []byte { return l.appendOutputs(b, get(v)) })
}

// levels is a list of Beta distributions. get returns alpha and beta of each in turn.
func levels[T any](doc string, get func(T) []float64) field[T] {
	return list("levels", doc, func(l *Layout) int { return l.Levels },
		func(v T) int { return len(get(v)) / 2 },
		func(v T, i int) hafvf.Beta { return hafvf.Beta{Alpha: get(v)[2*i], Beta: get(v)[2*i+1]} },
		number("alpha", "", "First parameter.", func(b hafvf.Beta) float64 { return b.Alpha }),
		number("beta", "", "Second parameter.", func(b hafvf.Beta) float64 { return b.Beta }),
	)
}

// posterior is the parameters of the family by name.
func posterior[T any](get func(T) []float64) field[T] {
	return field[T]{
		name: "posterior", begin: begin("posterior"), takes: "object", doc: "The family's textbook parameters by name, as in model.prior.",
		json: func(b []byte, l *Layout, v T) []byte {
			b = append(b, '{')
			offset, values := 0, get(v)
			for i, p := range l.Params {
				if i > 0 {
					b = append(b, ',')
				}
				b = appendText(b, p.Name)
				b = append(b, ':')
				b = appendParam(b, p, values[offset:offset+p.Size()])
				offset += p.Size()
			}
			return append(b, '}')
		},
		columns: func(path string, l *Layout, _ tabular.Kind) (cols []tabular.Column) {
			for _, p := range l.Params {
				kind := tabular.Number
				if p.Rows > 0 {
					kind = tabular.String
				}
				cols = append(cols, tabular.Column{Path: path + "." + p.Name, Kind: kind})
			}
			return cols
		},
		cells: func(b []byte, l *Layout, v T) []byte {
			offset, values := 0, get(v)
			for _, p := range l.Params {
				b = append(appendParam(b, p, values[offset:offset+p.Size()]), '\t')
				offset += p.Size()
			}
			return b
		},
		avro: func(name string, l *Layout) any {
			rec := &avroRecord{Type: "record", Name: name}
			for _, p := range l.Params {
				var kind any = "double"
				switch {
				case p.Rows > 0 && p.Cols > 0:
					kind = &avroList{"array", avroNumbers}
				case p.Rows > 0:
					kind = avroNumbers
				}
				rec.add(p.Name, kind)
			}
			return rec
		},
	}
}
