// Package testdata has the real series that the program includes, with a config. See README.md for their sources.
package testdata

import _ "embed"

var (
	// CloudCSV has the CPU utilisation of eight cloud servers in percent. Its columns are key, time, x.
	//go:embed nab/cloud.csv
	CloudCSV []byte

	// CloudYAML is a config for CloudCSV, which it reads as cloud.csv.
	//go:embed nab/cloud.yaml
	CloudYAML []byte

	// TweetsCSV has the number of tweets that name a company, per five minutes, for five companies. Its columns are
	// key, time, x.
	//go:embed nab/tweets.csv
	TweetsCSV []byte

	// WindowsJSON has the labelled windows of the series in CloudCSV and TweetsCSV, in the form of the Numenta
	// Anomaly Benchmark.
	//go:embed nab/windows.json
	WindowsJSON []byte
)
