package records

import (
	"slices"

	"hafvf/internal/jsontext"
)

// The schemas of Avro are made of the tables of fields. Each field may be null, and is if a
// record does not have it. So a schema can read the records of another layout, with fewer or
// more fields.

// avroRecord, avroList and avroUnion are types of a schema, as its JSON has them.
type (
	avroRecord struct {
		Type   string      `json:"type"`
		Name   string      `json:"name"`
		Fields []avroField `json:"fields"`
	}
	avroField struct {
		Name    string    `json:"name"`
		Type    avroUnion `json:"type"` // null and others
		Default any       `json:"default"`
	}
	avroList struct {
		Type  string `json:"type"`
		Items any    `json:"items"`
	}
	avroUnion []any
)

// avroOf are the types of fields by what they take.
var avroOf = map[string]any{
	"number":        "double",
	"whole number":  "long",
	"text":          "string",
	"time":          map[string]string{"type": "long", "logicalType": "timestamp-micros"},
	"true or false": "boolean",
}

// avroNumbers is a list of numbers, and avroValue what an observation may be beside null.
var (
	avroNumbers = &avroList{"array", avroUnion{"null", "double"}}
	avroValue   = avroUnion{"double", &avroList{"array", avroUnion{"null", "double", avroNumbers}}}
)

func (r *avroRecord) add(name string, of any) {
	several, ok := of.(avroUnion)
	if !ok {
		several = avroUnion{of}
	}
	r.Fields = append(r.Fields, avroField{Name: name, Type: append(avroUnion{"null"}, several...)})
}

func avroRecordOf[T any](name string, l *Layout, fields []field[T]) *avroRecord {
	r := &avroRecord{Type: "record", Name: name}
	for i := range fields {
		f := &fields[i]
		if !l.has(f.full) {
			continue
		}
		if of := f.avro(name+"."+f.name, l); of != nil {
			r.add(f.name, of)
		}
	}
	return r
}

// merge adds the fields that only another record has, also in lists of records.
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

// EstimateSchema is the Avro schema of the records of estimates.
func (l *Layout) EstimateSchema() string {
	return jsontext.Of(avroRecordOf("hafvf.Estimate", l, estimates))
}

// SmoothedSchema is that of smoothed records.
func (l *Layout) SmoothedSchema() string {
	return jsontext.Of(avroRecordOf("hafvf.Smoothed", l, smootheds))
}

// AlertSchema is that of all that goes to a receiver of alerts: alerts, incidents and digests.
func (l *Layout) AlertSchema() string {
	const name = "hafvf.Alert"
	r := avroRecordOf(name, l, alerts)
	if l.Incidents {
		r.merge(avroRecordOf(name, l, incidentFields)).merge(avroRecordOf(name, l, digestFields))
	}
	r.add("labels", map[string]string{"type": "map", "values": "string"})
	return jsontext.Of(r)
}

// RejectSchema is that of the records of the dead letter.
func RejectSchema() string {
	return jsontext.Of(avroRecordOf("hafvf.Rejected", &Layout{}, rejects))
}
