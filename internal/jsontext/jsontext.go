// Package jsontext makes JSON of what always has one, such as settings that travel to workers, and reads it.
package jsontext

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"hafvf/internal/message"
)

// Of is the JSON of v. It panics if there is none.
func Of(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// Read reads what Of has written. It panics if that is none of a T.
func Read[T any](text string) (v T) {
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		panic(err)
	}
	return v
}

// Strict reads one value that somebody has written: a field that T does not have is an error, and so is what follows.
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
