// Command prism serves Beam's Prism for tests of the Python package, which start it as they would Beam's own command of
// that name. That links the libraries of a cloud, and takes minutes to compile.
package main

import (
	"context"
	"flag"
	"log"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"
)

func main() {
	port := flag.Int("job_port", 8073, "that the job service listens on, on all interfaces")
	for _, name := range []string{"log_level", "log_kind", "serve_http"} {
		flag.String(name, "", "is of Beam's command, and not used")
	}
	flag.Parse()
	if _, err := prism.CreateJobServer(context.Background(), prism.Options{Port: *port}); err != nil {
		log.Fatal(err)
	}
	select {}
}
