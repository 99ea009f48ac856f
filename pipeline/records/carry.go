package records

import (
	"encoding/json"

	"hafvf/internal/tabular"
)

// carried is the object with the source fields that a record carries. In tables it has a column for each name in
// Layout.Carry.
func carried[T any](get func(T) string) field[T] {
	return field[T]{
		name: "carry", begin: begin("carry"), takes: "object", doc: "Columns or fields that carry of the source names.",
		json:   func(b []byte, _ *Layout, v T) []byte { return append(b, get(v)...) },
		absent: func(v T) bool { return get(v) == "" },
		columns: func(path string, l *Layout, _ tabular.Kind) (cols []tabular.Column) {
			for _, name := range l.Carry {
				cols = append(cols, tabular.Column{Path: path + "." + name, Kind: tabular.String})
			}
			return cols
		},
		cells: func(b []byte, l *Layout, v T) []byte {
			if len(l.Carry) == 0 {
				return b
			}
			var values map[string]json.RawMessage
			json.Unmarshal([]byte(get(v)), &values) // written by the parser, so it is valid
			for _, name := range l.Carry {
				if value := values[name]; string(value) != "null" {
					b = append(b, value...)
				}
				b = append(b, '\t')
			}
			return b
		},
		avro: func(string, *Layout) any { return nil },
	}
}
