package main

import (
	"context"
	"log/slog"

	"github.com/spf13/cobra"

	"hafvf/pipeline"
	"hafvf/pipeline/flink"
)

func workerCommand() *cobra.Command {
	var o operation
	address := "localhost:50000"
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Work for the TaskManagers of a Flink cluster",
		Long:  help("worker"),
		Example: `  hafvf worker
  hafvf worker --listen 0.0.0.0:9090     # /metrics and /healthz`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := o.logger()
			if err != nil {
				return err
			}
			slog.SetDefault(log) // of what runs here without knowing whose it is
			metrics, _, done, err := o.serve(log, false, nil)
			if err != nil {
				return err
			}
			defer done()
			ctx, stop := stoppable(context.Background())
			defer stop()
			reportReaderGone()
			ctx, release, err := pipeline.Attend(ctx, log, metrics)
			if err != nil {
				return err
			}
			defer release()
			l, _, err := listen("address", address)
			if err != nil {
				return err
			}
			version, beam := versions()
			log.Info("a worker listens", "address", l.Addr().String(), "version", version, "beam", beam)
			return (&flink.Worker{Version: version, Log: log}).Serve(ctx, l)
		},
	}
	cmd.Flags().StringVar(&address, "address", address, "address at which TaskManagers ask for work (the config's runner.worker); without a host on loopback")
	o.flags(cmd)
	return cmd
}
