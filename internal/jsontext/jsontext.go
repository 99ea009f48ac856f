// Package jsontext encodes values that always have a JSON form, such as settings for workers, and decodes JSON.
package jsontext

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"hafvf/internal/message"
)

// Of returns the JSON of v. It panics if v has none.
func Of(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// Read decodes the JSON of Of. It panics if text is not the JSON of a T.
func Read[T any](text string) (v T) {
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		panic(err)
	}
	return v
}

// Strict decodes one value of user input. It fails for fields that T does not have, and for text after the value.
func Strict[T any](text []byte) (v T, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		return v, errors.New(message.Bound(err.Error()))
	}
	if _, err := d.Token(); err != io.EOF {
		return v, errors.New("more than one JSON object")
	}
	return v, nil
}
