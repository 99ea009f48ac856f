package main

import (
	"github.com/spf13/cobra"
)

func workerCommand() *cobra.Command {
	var o operation
	address := "localhost:50000"
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Run filters for the TaskManagers of a Flink cluster",
		Long:  help("worker"),
		Example: `  hafvf worker
  hafvf worker --listen 0.0.0.0:9090     # /metrics and /healthz`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := o.logger()
			if err != nil {
				return err
			}
			return serveWorker(&o, log, address)
		},
	}
	cmd.Flags().StringVar(&address, "address", address, "address that TaskManagers connect to (runner.worker in the config); without a host, on loopback")
	o.flags(cmd)
	return cmd
}
