// Package pipelineproto encodes Beam pipelines for runners.
package pipelineproto

import (
	"context"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/graphx"
	pipepb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/pipeline_v1"
	"google.golang.org/protobuf/proto"
)

// Marshal encodes p for a runner whose functions run in the worker pool at the address pool, with the given
// parameters. The pool runs this program, so no artifacts are staged.
func Marshal(p *beam.Pipeline, pool string, params map[string]string) (*pipepb.Pipeline, error) {
	edges, _, err := p.Build()
	if err != nil {
		return nil, err
	}
	env, err := graphx.CreateEnvironment(context.Background(), graphx.URNEnvExternal, func(context.Context) string { return pool })
	if err != nil {
		return nil, err
	}
	payload, err := proto.Marshal(&pipepb.ExternalPayload{Endpoint: &pipepb.ApiServiceDescriptor{Url: pool}, Params: params})
	if err != nil {
		return nil, err
	}
	env.Payload, env.Dependencies = payload, nil
	return graphx.Marshal(edges, &graphx.Options{Environment: env})
}
