// Package testdata holds the real series that the program brings along, and a
// config for each file of them. See README.md for where they come from.
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

	// TweetsCSV holds counts of tweets per five minutes that name one of five
	// companies: columns key, time, x.
	//go:embed nab/tweets.csv
	TweetsCSV []byte

	// TweetsYAML is a config for TweetsCSV, which it expects as tweets.csv.
	//go:embed nab/tweets.yaml
	TweetsYAML []byte
)
