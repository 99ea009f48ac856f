// Package testdata holds the real series that the program brings along, with a
// config. See README.md for where they come from.
package testdata

import _ "embed"

var (
	// CloudCSV holds the CPU utilisation of eight cloud servers in percent:
	// columns key, time, x.
	//go:embed nab/cloud.csv
	CloudCSV []byte

	// CloudYAML is a config for CloudCSV, which it expects as cloud.csv.
	//go:embed nab/cloud.yaml
	CloudYAML []byte

	// TweetsCSV holds tweets that name a company, counted per five minutes, of five
	// companies: columns key, time, x.
	//go:embed nab/tweets.csv
	TweetsCSV []byte

	// WindowsJSON holds the labelled windows of the series in CloudCSV and TweetsCSV, in
	// the form of the Numenta Anomaly Benchmark.
	//go:embed nab/windows.json
	WindowsJSON []byte
)
