// Package portable prepares Beam pipelines for the runners that they are handed to.
package portable

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/graphx"
	pipepb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/pipeline_v1"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"
	"google.golang.org/protobuf/proto"
)

// Marshal encodes p for a runner that asks the worker pool at the address pool to
// run its functions, with the given parameters. The pool runs this program, so
// nothing has to be staged. The functions of the names in without are left out, each with
// the reshuffle before it.
func Marshal(p *beam.Pipeline, pool string, params map[string]string, without ...string) (*pipepb.Pipeline, error) {
	edges, _, err := p.Build()
	if err != nil {
		return nil, err
	}
	left := func(e *graph.MultiEdge) bool { return slices.Contains(without, e.Name()) }
	before := map[int]bool{} // the nodes that those functions take
	for _, e := range edges {
		if left(e) {
			before[e.Input[0].From.ID()] = true
		}
	}
	edges = slices.DeleteFunc(edges, func(e *graph.MultiEdge) bool {
		return left(e) || e.Op == graph.Reshuffle && before[e.Output[0].To.ID()]
	})
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

var experiments sync.Mutex

// KeepBundlesWhole keeps Prism from splitting a bundle within a key: it would run the
// key twice at once and lose updates of its state (Beam 2.77.0). The experiment that it
// adds to those of the program is passed to the runner with a pipeline; other runners
// ignore it.
func KeepBundlesWhole() {
	const experiment = "prism_disable_sdf_split"
	experiments.Lock()
	defer experiments.Unlock()
	if !slices.Contains(jobopts.GetExperiments(), experiment) {
		*jobopts.Experiments = strings.Trim(*jobopts.Experiments+","+experiment, ",")
	}
}
