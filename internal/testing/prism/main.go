// Command prism serves Beam's Prism for tests of the Python package, which start it instead of Beam's own command.
// Beam's command links the libraries of a cloud and takes minutes to compile.
package main

import (
	"context"
	"flag"
	"log"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"
)

func main() {
	port := flag.Int("job_port", 8073, "port of the job service, on all interfaces")
	for _, name := range []string{"log_level", "log_kind", "serve_http"} {
		flag.String(name, "", "ignored; an option of Beam's command")
	}
	flag.Parse()
	if _, err := prism.CreateJobServer(context.Background(), prism.Options{Port: *port}); err != nil {
		log.Fatal(err)
	}
	select {}
}
