package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"

	"hafvf/cmd/hafvf/report"
	"hafvf/cmd/internal/cli"
	"hafvf/pipeline"
)

// operation holds the flags for observing a run, and the results of observe.
type operation struct {
	level, listen string
	config        string    // name of the config on the live page
	markTo        string    // path of the config if it accepts marks
	signal        os.Signal // signal that stopped the run; nil without one
	rejected      error     // error of a run with mostly rejected records; see observe
}

func (o *operation) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.level, "log-level", "info", "minimum level of the log on standard error: debug, info, warn or error")
	cmd.Flags().StringVar(&o.listen, "listen", "", "`address` that serves /metrics (Prometheus) and /healthz and, for run, the live page at /; :9090 is on loopback, 0.0.0.0:9090 on all interfaces; none by default")
}

// logger returns a logger to standard error.
func (o operation) logger() (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.level)); err != nil {
		return nil, cli.UsageError(fmt.Errorf("--log-level %s: use debug, info, warn or error", o.level))
	}
	return slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level})), nil
}

// serve serves metrics and health checks until done is called. If live is true, it also serves the live page of a
// run, with times in zone. Without --listen, metrics and observers are nil.
func (o operation) serve(log *slog.Logger, live bool, zone *time.Location) (metrics *pipeline.Metrics, observers *pipeline.Observer, done func(), err error) {
	if o.listen == "" {
		return nil, nil, func() {}, nil
	}
	listener, host, err := listen("listen", o.listen)
	if err != nil {
		return nil, nil, nil, err
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
		fmt.Fprint(w, "ok\n", metrics.UnavailableReceivers())
	})
	// Timeouts close the connections of idle and stuck clients.
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	done, message := func() { server.Close() }, "serving /metrics and /healthz"
	if live {
		page := report.NewLive(o.config, o.markTo, zone, metrics)
		mux.Handle("/", page.Handler(host))
		observers, message = page.Observer(), "serving the page of this run, /metrics and /healthz"
		done = func() {
			page.Close() // notifies readers of the end
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			if server.Shutdown(ctx) != nil {
				server.Close()
			}
		}
	}
	go server.Serve(listener)
	log.Info(message, "address", listener.Addr().String())
	return metrics, observers, done, nil
}

// listen listens at the address of a flag, and returns its host. An address without a host, such as :9090, is on
// loopback.
func listen(flag, address string) (l net.Listener, host string, err error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, "", cli.UsageError(fmt.Errorf("--%s %s: give host:port, or :port for loopback", flag, address))
	}
	host = cmp.Or(host, "localhost")
	if l, err = net.Listen("tcp", net.JoinHostPort(host, port)); err != nil {
		return nil, "", fmt.Errorf("--%s %s: %w", flag, address, err)
	}
	return l, host, nil
}
