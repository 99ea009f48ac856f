package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"

	"hafvf/pipeline"
)

// operation is how a run is watched from outside.
type operation struct {
	level, listen string
}

func (o *operation) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.level, "log-level", "info", "least level of the log on standard error: debug, info, warn or error")
	cmd.Flags().StringVar(&o.listen, "listen", "", "`address` that serves /metrics (Prometheus) and /healthz; without a host, as in :9090, on loopback; 0.0.0.0:9090 for all interfaces; none by default")
}

// logger logs to standard error.
func (o operation) logger() (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.level)); err != nil {
		return nil, usageError{fmt.Errorf("--log-level %s: give debug, info, warn or error", o.level)}
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})), nil
}

// serve answers Prometheus and health checks until done is called.
func (o operation) serve(log *slog.Logger) (metrics *pipeline.Metrics, done func(), err error) {
	if o.listen == "" {
		return nil, func() {}, nil
	}
	listener, err := listen("listen", o.listen)
	if err != nil {
		return nil, nil, err
	}
	metrics = pipeline.NewMetrics()
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		if err := metrics.Health(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, "ok\n", metrics.Note())
	})
	server := &http.Server{Handler: mux}
	go server.Serve(listener)
	log.Info("serving /metrics and /healthz", "address", listener.Addr().String())
	return metrics, func() { server.Close() }, nil
}

// listen listens at the address that a flag gives: on loopback where it names no
// host, as in :9090.
func listen(flag, address string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, usageError{fmt.Errorf("--%s %s: give host:port, or :port for loopback", flag, address)}
	}
	l, err := net.Listen("tcp", net.JoinHostPort(cmp.Or(host, "localhost"), port))
	if err != nil {
		return nil, fmt.Errorf("--%s %s: %w", flag, address, err)
	}
	return l, nil
}
