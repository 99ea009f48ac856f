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
)
