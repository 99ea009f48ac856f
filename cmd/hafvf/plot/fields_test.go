package plot

import (
	"reflect"
	"strings"
	"testing"

	"hafvf/cmd/hafvf/output"
	"hafvf/pipeline/records"
)

// Every field that a picture reads is one of the records that a run writes.
func TestFieldsAreOfRecords(t *testing.T) {
	known := map[string]bool{}
	for _, of := range records.Kinds() {
		for _, f := range of.Fields {
			known[f.Path] = true
		}
	}
	var check func(prefix string, of reflect.Type)
	check = func(prefix string, of reflect.Type) {
		for of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		if of.Kind() != reflect.Struct || of.Name() == "Time" {
			return
		}
		for i := range of.NumField() {
			f := of.Field(i)
			if f.Anonymous {
				check(prefix, f.Type)
				continue
			}
			path := prefix + strings.ToLower(f.Name)
			if tag := f.Tag.Get("json"); tag != "" {
				path = prefix + tag
			}
			if !known[path] {
				t.Errorf("no record has the field %s", path)
			}
			if f.Type.Kind() == reflect.Slice {
				check(path+"[].", f.Type.Elem())
			} else {
				check(path+".", f.Type)
			}
		}
	}
	check("", reflect.TypeFor[output.Record]())
}
