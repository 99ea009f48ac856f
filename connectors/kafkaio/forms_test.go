package kafkaio

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"

	"hafvf/connectors"
)

func init() {
	RegisterForm("test", func(setting string) Reading {
		return func(_ context.Context, _ *slog.Logger, records []Record) error {
			for i := range records {
				if records[i].Value = append([]byte(setting), records[i].Value...); bytes.Contains(records[i].Value, []byte("bad")) {
					return errors.New("cannot go on")
				}
			}
			return nil
		}
	}, func(setting string) Writing {
		return func(_ context.Context, _ *slog.Logger, line []byte) ([]byte, error) {
			if setting == "" {
				return nil, errors.New("cannot go on")
			}
			return append([]byte(setting), line...), nil
		}
	})
}

// If a Form makes records larger, the growth counts towards the reader's budget.
func TestReadingGrows(t *testing.T) {
	f := &fetcher{reading: Form{"test", "0123456789"}.Reading(), ahead: &budgetShare{budget: &budget{bytes: 1000}}, log: quiet}
	b := batch{records: []Record{{Value: []byte("a")}, {Value: []byte("b")}}, bytes: 2}
	if err := f.read(t.Context(), &b); err != nil || string(b.records[1].Value) != "0123456789b" || b.bytes != 22 || f.ahead.bytes != 20 {
		t.Errorf("%v, %d bytes, %d held", err, b.bytes, f.ahead.bytes)
	}
	b = batch{records: []Record{{Value: []byte("bad")}}}
	if err := f.read(t.Context(), &b); err == nil || b.bytes != 0 {
		t.Errorf("%v, %d bytes", err, b.bytes)
	}
	if f.reading = (Form{}).Reading(); f.reading != nil || f.read(t.Context(), &b) != nil {
		t.Error("the zero form reads")
	}
}

func TestWritingChanges(t *testing.T) {
	chunk := connectors.Chunk(append(connectors.Chunk(nil).Begin([]byte("k"), "id"), "line\n"...))
	for setting, want := range map[string]string{"<": "<line", "": ""} {
		got, err := appendMessages(t.Context(), nil, chunk, Form{"test", setting}.writing(), quiet)
		if (err == nil) != (want != "") || err == nil && (string(got[0].Value) != want || got[0].ID != "id") {
			t.Errorf("%q: %+v, %v", setting, got, err)
		}
	}
}
