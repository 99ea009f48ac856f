package promio

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"hafvf/connectors"
	"hafvf/internal/account"
	"hafvf/internal/httpclient"
	"hafvf/internal/secret"
	"hafvf/internal/testing/expect"
	"hafvf/pipeline/direct"
)

// When the server refuses some records, no record is in flight after the others are written and the refused ones
// have been returned.
func TestWriteSettlesRefused(t *testing.T) {
	beam.Init()
	s := &store{oldest: 2, samples: map[string]bool{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	var chunk connectors.Chunk
	samples := records(t, 1, 3)
	for _, r := range samples {
		chunk = append(chunk.Begin(r.line.Key, r.line.ID), r.line.Text...)
	}
	settled := false
	run := account.Open(account.StateKeeper{Committed: func(map[string]account.EncodedState, time.Time) { settled = true }})
	defer run.Close()
	expect.OK(t, run.HandOver(t.Context(), len(samples), nil))
	p, scope := beam.NewPipelineWithRoot()
	sink := Sink{Server: httpclient.Server{URL: secret.Text{Text: server.URL}, Timeout: time.Minute}}
	Write(scope, sink, beam.Create(scope, []byte(chunk)))
	expect.Get(direct.Execute(run.In(t.Context()), p))(t)
	if !settled || len(s.samples) != 5*2 { // there are no scores
		t.Errorf("settled %t, %d samples", settled, len(s.samples))
	}
}
