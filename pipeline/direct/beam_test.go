package direct

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/test/integration/primitives"

	"hafvf/internal/testing/expect"
)

func TestMain(m *testing.M) {
	flag.Parse()
	expect.Together(8)
	beam.Init()
	m.Run()
}

// scoped returns a function that builds the pipeline of f.
func scoped(f func(beam.Scope)) func() *beam.Pipeline {
	return func() *beam.Pipeline {
		p, s := beam.NewPipelineWithRoot()
		f(s)
		return p
	}
}

// suite has the pipelines of Beam's own suite for runners, unchanged. Two are left out. Drain asks a runner to end an
// endless source; this runner has no such request. Oom fills the memory of a worker to check its heap dump; here the
// worker is the test.
var suite = []struct {
	name  string
	build func() *beam.Pipeline
}{
	{"Checkpoints", scoped(primitives.Checkpoints)},
	{"CoGBK", scoped(primitives.CoGBK)},
	{"GBKShortRead", scoped(primitives.GBKShortRead)},
	{"Reshuffle", scoped(primitives.Reshuffle)},
	{"ReshuffleKV", scoped(primitives.ReshuffleKV)},
	{"Flatten", scoped(primitives.Flatten)},
	{"FlattenDup", scoped(primitives.FlattenDup)},
	{"ParDoMultiOutput", primitives.ParDoMultiOutput},
	{"ParDoSideInput", primitives.ParDoSideInput},
	{"ParDoKVSideInput", primitives.ParDoKVSideInput},
	{"ParDoMultiMapSideInput", primitives.ParDoMultiMapSideInput},
	{"ParDoPipelineOptions", primitives.ParDoPipelineOptions},
	{"ParDoProcessElementBundleFinalizer", scoped(primitives.ParDoProcessElementBundleFinalizer)},
	{"ParDoFinishBundleFinalizer", scoped(primitives.ParDoFinishBundleFinalizer)},
	{"ParDoFinalizerInAll", scoped(primitives.ParDoFinalizerInAll)},
	{"ValueStateParDo", scoped(primitives.ValueStateParDo)},
	{"ValueStateParDoWindowed", scoped(primitives.ValueStateParDoWindowed)},
	{"ValueStateParDoClear", scoped(primitives.ValueStateParDoClear)},
	{"BagStateParDo", scoped(primitives.BagStateParDo)},
	{"BagStateParDoClear", scoped(primitives.BagStateParDoClear)},
	{"BagStateBlindWriteParDo", scoped(primitives.BagStateBlindWriteParDo)},
	{"CombiningStateParDo", scoped(primitives.CombiningStateParDo)},
	{"MapStateParDo", scoped(primitives.MapStateParDo)},
	{"MapStateParDoClear", scoped(primitives.MapStateParDoClear)},
	{"SetStateParDo", scoped(primitives.SetStateParDo)},
	{"SetStateParDoClear", scoped(primitives.SetStateParDoClear)},
	{"OrderedListStateParDo", scoped(primitives.OrderedListStateParDo)},
	{"TestStreamStrings", scoped(primitives.TestStreamStrings)},
	{"TestStreamByteSliceSequence", scoped(primitives.TestStreamByteSliceSequence)},
	{"TestStreamInt64Sequence", scoped(primitives.TestStreamInt64Sequence)},
	{"TestStreamTwoInt64Sequences", scoped(primitives.TestStreamTwoInt64Sequences)},
	{"TestStreamFloat64Sequence", scoped(primitives.TestStreamFloat64Sequence)},
	{"TestStreamTwoFloat64Sequences", scoped(primitives.TestStreamTwoFloat64Sequences)},
	{"TestStreamBoolSequence", scoped(primitives.TestStreamBoolSequence)},
	{"TestStreamTwoBoolSequences", scoped(primitives.TestStreamTwoBoolSequences)},
	{"TestStreamTwoUserTypeSequences", scoped(primitives.TestStreamTwoUserTypeSequences)},
	{"TestStreamInt16Sequence", scoped(primitives.TestStreamInt16Sequence)},
	{"TestStreamSimple", scoped(primitives.TestStreamSimple)},
	{"TestStreamSimple_InfinityDefault", scoped(primitives.TestStreamSimple_InfinityDefault)},
	{"TestStreamToGBK", scoped(primitives.TestStreamToGBK)},
	{"TestStreamTimersEventTime", scoped(primitives.TestStreamTimersEventTime)},
	{"TimersEventTimeBounded", scoped(primitives.TimersEventTimeBounded)},
	{"TimersEventTimeUnbounded", scoped(primitives.TimersEventTimeUnbounded)},
	{"TimersEventTime_WithOutputTimestamp", scoped(primitives.TimersEventTime_WithOutputTimestamp)},
	{"TimersEventTime_WithNoOutputTimestamp", scoped(primitives.TimersEventTime_WithNoOutputTimestamp)},
	{"TimersProcessingTimeTestStream_Infinity", scoped(primitives.TimersProcessingTimeTestStream_Infinity)},
	{"TimersProcessingTime_Bounded", scoped(primitives.TimersProcessingTime_Bounded)},
	{"TimersProcessingTime_Unbounded", scoped(primitives.TimersProcessingTime_Unbounded)},
	{"Panes", scoped(primitives.Panes)},
	{"WindowSums_GBK", scoped(primitives.WindowSums_GBK)},
	{"WindowSums_Lifted", scoped(primitives.WindowSums_Lifted)},
	{"ValidateWindowedSideInputs", scoped(primitives.ValidateWindowedSideInputs)},
	{"TriggerDefault", scoped(primitives.TriggerDefault)},
}

// refused has the pipelines that the runner rejects because they need other triggers.
var refused = map[string]func(beam.Scope){
	"TriggerAlways":                          primitives.TriggerAlways,
	"TriggerElementCount":                    primitives.TriggerElementCount,
	"TriggerAfterProcessingTimeNotTriggered": primitives.TriggerAfterProcessingTimeNotTriggered,
	"TriggerAfterProcessingTime":             primitives.TriggerAfterProcessingTime,
	"TriggerRepeat":                          primitives.TriggerRepeat,
	"TriggerAfterEndOfWindow":                primitives.TriggerAfterEndOfWindow,
	"TriggerAfterAll":                        primitives.TriggerAfterAll,
	"TriggerAfterEach":                       primitives.TriggerAfterEach,
	"TriggerAfterAny":                        primitives.TriggerAfterAny,
	"TriggerAfterSynchronizedProcessingTime": primitives.TriggerAfterSynchronizedProcessingTime,
	"TriggerNever":                           primitives.TriggerNever,
	"TriggerOrFinally":                       primitives.TriggerOrFinally,
}

func TestBeamSuite(t *testing.T) {
	expect.Same(t, 65, len(suite)+len(refused), "pipelines in the tables, of the suite's 67")
	for _, c := range suite {
		for _, shards := range []int{1, 3} {
			if shards > 1 && c.name == "ParDoPipelineOptions" {
				continue // it defines flags, which is possible only once
			}
			t.Run(fmt.Sprintf("%s/shards=%d", c.name, shards), func(t *testing.T) {
				if strings.HasPrefix(c.name, "TimersProcessingTime") {
					expect.Long(t, "what waits for processing time")
					t.Parallel() // they wait for seconds
				}
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				expect.Get(Runner{Shards: shards}.Execute(ctx, c.build()))(t)
			})
		}
	}
}

func TestBeamSuiteRefused(t *testing.T) {
	for name, f := range refused {
		t.Run(name, func(t *testing.T) {
			_, err := Execute(t.Context(), scoped(f)())
			if err == nil || !strings.Contains(err.Error(), "GroupByKey") && !strings.Contains(err.Error(), "GBK") || !strings.Contains(err.Error(), "trigger") {
				t.Errorf("error %v, want one that names the transform and its trigger", err)
			}
		})
	}
}
