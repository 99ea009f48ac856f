// Package profiler stands in for Google's client of its Cloud Profiler, which Beam's worker
// harness links for jobs on Dataflow (Beam 2.77.0, harness.go). hafvf runs no such jobs. The
// client would bring 150 packages, a quarter of the time of a cold build.
package profiler

import "errors"

// Config is what the harness sets.
type Config struct{ Service, ServiceVersion string }

// Start refuses to start.
func Start(Config) error { return errors.New("this program is built without Google's Cloud Profiler") }
