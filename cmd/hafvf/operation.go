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

// operation is how a run is watched from outside.
type operation struct {
	level, listen string
	config        string    // name of the config on the page of a run
	markTo        string    // path of that config if it takes marks
	signal        os.Signal // that has stopped the run; nil for none
	rejected      error     // see observe
}

func (o *operation) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.level, "log-level", "info", "least level of the log on standard error: debug, info, warn or error")
	cmd.Flags().StringVar(&o.listen, "listen", "", "`address` that serves /metrics (Prometheus) and /healthz, and of run the live page at /; without a host, as in :9090, on loopback; 0.0.0.0:9090 for all interfaces; none by default")
}

// logger logs to standard error.
func (o operation) logger() (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.level)); err != nil {
		return nil, cli.Usage(fmt.Errorf("--log-level %s: give debug, info, warn or error", o.level))
	}
	return slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level})), nil
}

// serve answers Prometheus and health checks until done is called. With live it serves the page of a
// run, too, with times of the zone.
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
		fmt.Fprint(w, "ok\n", metrics.Note())
	})
	// A client that says or takes nothing keeps no connection.
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	done, serves := func() { server.Close() }, "serving /metrics and /healthz"
	if live {
		page := report.NewLive(o.config, o.markTo, zone, metrics)
		mux.Handle("/", page.Handler(host))
		observers, serves = page.Observer(), "serving the page of this run, /metrics and /healthz"
		done = func() {
			page.Close() // readers hear of the end
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			if server.Shutdown(ctx) != nil {
				server.Close()
			}
		}
	}
	go server.Serve(listener)
	log.Info(serves, "address", listener.Addr().String())
	return metrics, observers, done, nil
}

// listen listens at the address that a flag gives, and returns its host: on loopback where it names
// none, as in :9090.
func listen(flag, address string) (l net.Listener, host string, err error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, "", cli.Usage(fmt.Errorf("--%s %s: give host:port, or :port for loopback", flag, address))
	}
	host = cmp.Or(host, "localhost")
	if l, err = net.Listen("tcp", net.JoinHostPort(host, port)); err != nil {
		return nil, "", fmt.Errorf("--%s %s: %w", flag, address, err)
	}
	return l, host, nil
}
