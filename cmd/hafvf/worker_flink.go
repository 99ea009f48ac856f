//go:build flink

package main

import (
	"context"
	"log/slog"

	"hafvf/pipeline"
	"hafvf/pipeline/flink"
)

// serveWorker serves TaskManagers until a signal.
func serveWorker(o *operation, log *slog.Logger, address string) error {
	slog.SetDefault(log) // for libraries that use the default logger
	metrics, _, done, err := o.serve(log, false, nil)
	if err != nil {
		return err
	}
	defer done()
	ctx, stop := stoppable(context.Background())
	defer stop()
	reportReaderGone()
	ctx, release, err := pipeline.ServeWorker(ctx, log, metrics)
	if err != nil {
		return err
	}
	defer release()
	l, _, err := listen("address", address)
	if err != nil {
		return err
	}
	version, beam := versions()
	log.Info("worker listening", "address", l.Addr().String(), "version", version, "beam", beam)
	return (&flink.Worker{Version: version, Log: log}).Serve(ctx, l)
}
