package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"hafvf/cmd/hafvf/fit"
	"hafvf/cmd/hafvf/outfile"
	"hafvf/connectors"
	"hafvf/internal/message"
)

// readEarlier reads the table of an earlier fit, which must have choices if choices is true. Its error is a usage
// error.
func readEarlier(path string, choices bool) (*fit.Earlier, error) {
	if err := outfile.CheckTable(path); err != nil {
		return nil, err
	}
	format, _ := outfile.TableOf(path)
	src := connectors.Source{Format: format.Name, Path: path, Key: []string{"key"}, Values: []string{"trials", "log_evidence", "aic", "bic"}}
	hasChoices := false
	if err := connectors.Headers(src, func(columns []string) { hasChoices = slices.Contains(columns, "choices") }); err != nil {
		return nil, err
	}
	switch {
	case hasChoices != choices:
		return nil, fmt.Errorf("%s is a table %s choices: a likelihood of choices cannot be compared with an evidence of outcomes", path, map[bool]string{true: "with", false: "without"}[hasChoices])
	case choices:
		src.Values = append(src.Values, "choices", "log_likelihood")
	}
	rd, err := connectors.Open(src)
	if err != nil {
		return nil, err
	}
	defer rd.Close()
	e, add := fit.NewEarlier(path, choices)
	for {
		r, err := rd.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil && r.Reason != "" {
			err = fmt.Errorf("%s, line %d: %s", path, r.Position, r.Reason)
		}
		if err != nil {
			return nil, err
		}
		values := make([]float64, len(src.Values))
		for i := range values {
			values[i] = math.NaN()
			text := r.Fields[2+i]
			if text == "" && i > 0 {
				continue
			}
			if values[i], err = strconv.ParseFloat(text, 64); err != nil {
				return nil, fmt.Errorf("%s, line %d: %s is not a number: give a table that fit has written", path, r.Position, message.Quote(text))
			}
		}
		add(r.Fields[0], values)
	}
	e.Total()
	return e, nil
}
