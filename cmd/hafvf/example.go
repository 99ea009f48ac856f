package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"log/slog"
	"strconv"

	"hafvf/connectors/kafkaio"
	"hafvf/testdata"
)

// example writes the bundled series to a topic, as observations in JSON.
func example(ctx context.Context, sink kafkaio.Sink) error {
	rows, err := csv.NewReader(bytes.NewReader(testdata.CloudCSV)).ReadAll()
	if err != nil {
		return err
	}
	var messages []kafkaio.Message
	for _, row := range rows[1:] {
		x, err := strconv.ParseFloat(row[2], 64)
		if err != nil {
			return err
		}
		value, err := json.Marshal(struct {
			Key  string  `json:"key"`
			Time string  `json:"time"`
			X    float64 `json:"x"`
		}{row[0], row[1], x})
		if err != nil {
			return err
		}
		messages = append(messages, kafkaio.Message{Key: []byte(row[0]), Value: value})
	}
	w, err := kafkaio.NewWriter(ctx, sink, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer w.Close()
	return w.Write(ctx, messages)
}
