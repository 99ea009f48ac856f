package main

import (
	"context"
	"log/slog"
	"os/signal"
	"syscall"

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
		Long: `Worker runs the filters of jobs that hafvf run has submitted to a Flink cluster. One
stands beside each TaskManager, on the same machine or in the same pod, and is the
same version of hafvf as the one that submits; nothing is copied to it. What the
config says of secrets (env, file) is looked up here, too.

Whoever reaches the worker's address can have it run the program's functions: leave it
on loopback, where its TaskManager is, or allow TaskManagers alone by a firewall.

Rejects of a config without a dead letter go to standard error. Ctrl-C or SIGTERM
ends it; Flink then restarts what it had from the last checkpoint.`,
		Example: `  hafvf worker
  hafvf worker --listen 0.0.0.0:9090     # /metrics and /healthz`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := o.logger()
			if err != nil {
				return err
			}
			slog.SetDefault(log) // of what runs here without knowing whose it is
			metrics, done, err := o.serve(log)
			if err != nil {
				return err
			}
			defer done()
			release, err := pipeline.Attend(log, metrics)
			if err != nil {
				return err
			}
			defer release()
			l, err := listen("address", address)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			version, beam := versions()
			log.Info("a worker listens", "address", l.Addr().String(), "version", version, "beam", beam)
			return (&flink.Worker{Version: version, Log: log}).Serve(ctx, l)
		},
	}
	cmd.Flags().StringVar(&address, "address", address, "where TaskManagers ask for work to be done (the config's runner.worker); without a host on loopback")
	o.flags(cmd)
	return cmd
}
