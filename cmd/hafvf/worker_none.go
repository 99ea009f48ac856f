//go:build !flink

package main

import (
	"errors"
	"log/slog"

	"hafvf/cmd/internal/cli"
)

// serveWorker returns an error: Beam's worker links Google's profiler and 140 more packages, which other commands do
// not need.
func serveWorker(*operation, *slog.Logger, string) error {
	return cli.UsageError(errors.New("this program was built without the worker of Flink: build it with go build -tags flink ./cmd/hafvf, as deploy/Dockerfile does"))
}
