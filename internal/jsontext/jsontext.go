// Package jsontext makes JSON of what always has one, such as settings that travel to workers, and reads it.
package jsontext

import "encoding/json"

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
