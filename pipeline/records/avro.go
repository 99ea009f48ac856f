package records

import (
	"slices"

	"hafvf/internal/jsontext"
)

// The Avro schemas are derived from the tables of fields. Every field may be null, and is null if a record lacks it.
// So a schema can read records of another layout, with fewer or more fields.

// avroRecord, avroField, avroList and avroUnion are types of a schema in its JSON form.
type (
	avroRecord struct {
		Type   string      `json:"type"`
		Name   string      `json:"name"`
		Fields []avroField `json:"fields"`
	}
	avroField struct {
		Name    string    `json:"name"`
		Type    avroUnion `json:"type"` // null, then the other types
		Default any       `json:"default"`
	}
	avroList struct {
		Type  string `json:"type"`
		Items any    `json:"items"`
	}
	avroUnion []any
)

// avroTypes are the Avro types by field.takes.
var avroTypes = map[string]any{
	"number":        "double",
	"whole number":  "long",
	"text":          "string",
	"time":          map[string]string{"type": "long", "logicalType": "timestamp-micros"},
	"true or false": "boolean",
}

// avroNumbers is a list of numbers. avroValue is the type of an observation that is not null.
var (
	avroNumbers = &avroList{"array", avroUnion{"null", "double"}}
	avroValue   = avroUnion{"double", &avroList{"array", avroUnion{"null", "double", avroNumbers}}}
)

func (r *avroRecord) add(name string, typ any) {
	several, ok := typ.(avroUnion)
	if !ok {
		several = avroUnion{typ}
	}
	r.Fields = append(r.Fields, avroField{Name: name, Type: append(avroUnion{"null"}, several...)})
}

func avroRecordOf[T any](name string, l *Layout, fields []field[T]) *avroRecord {
	r := &avroRecord{Type: "record", Name: name}
	for i := range fields {
		f := &fields[i]
		if !l.includes(f.full) {
			continue
		}
		if typ := f.avro(name+"."+f.name, l); typ != nil {
			r.add(f.name, typ)
		}
	}
	return r
}

// merge adds the fields that only the other record has, including fields in lists of records.
func (r *avroRecord) merge(other *avroRecord) *avroRecord {
	for _, f := range other.Fields {
		i := slices.IndexFunc(r.Fields, func(have avroField) bool { return have.Name == f.Name })
		if i < 0 {
			r.Fields = append(r.Fields, f)
			continue
		}
		if list, ok := r.Fields[i].Type[1].(*avroList); ok {
			list.Items.(*avroRecord).merge(f.Type[1].(*avroList).Items.(*avroRecord))
		}
	}
	return r
}

// EstimateSchema returns the Avro schema of estimates.
func (l *Layout) EstimateSchema() string {
	return jsontext.Of(avroRecordOf("hafvf.Estimate", l, estimates))
}

// SmoothedSchema returns the Avro schema of smoothed records.
func (l *Layout) SmoothedSchema() string {
	return jsontext.Of(avroRecordOf("hafvf.Smoothed", l, smootheds))
}

// AlertSchema returns the Avro schema of everything that receivers of alerts get: alerts, incidents and digests.
func (l *Layout) AlertSchema() string {
	const name = "hafvf.Alert"
	r := avroRecordOf(name, l, alerts)
	if l.Incidents {
		r.merge(avroRecordOf(name, l, incidentFields)).merge(avroRecordOf(name, l, digestFields))
	}
	r.add("labels", map[string]string{"type": "map", "values": "string"})
	return jsontext.Of(r)
}

// RejectSchema returns the Avro schema of the dead letter.
func RejectSchema() string {
	return jsontext.Of(avroRecordOf("hafvf.Rejected", &Layout{}, rejects))
}
