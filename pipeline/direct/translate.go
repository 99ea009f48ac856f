package direct

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/coder"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/exec"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/graphx"
	fnpb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/fnexecution_v1"
	pipepb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/pipeline_v1"
	"google.golang.org/protobuf/proto"
)

// URNs of Beam's model that package graphx does not export.
const (
	urnSource        = "beam:runner:source:v1"
	urnSink          = "beam:runner:sink:v1"
	urnPair          = "beam:transform:sdf_pair_with_restriction:v1"
	urnSplit         = "beam:transform:sdf_split_and_size_restrictions:v1"
	urnProcess       = "beam:transform:sdf_process_sized_element_and_restrictions:v1"
	urnTestStream    = "beam:transform:teststream:v1"
	urnWindowedValue = "beam:coder:windowed_value:v1"
	urnKV            = "beam:coder:kv:v1"
	urnDouble        = "beam:coder:double:v1"
)

// mainInput is the name of the first input and the first output in graphx.
const mainInput = "i0"

// A stage is a unit of execution: steps that call each other directly, a GroupByKey, or a TestStream.
type stage struct {
	id, name string      // of the first step
	input    *collection // nil for a TestStream
	steps    []string    // ids of the steps

	group  *grouping   // not nil for a GroupByKey
	script *testStream // not nil for a TestStream
	keyed  bool        // all elements of a key go to one shard
	splits bool        // elements have restrictions, whose unprocessed rest returns to the queue

	source  bool // splits, and elements originate here
	seeds   bool // see account.Seeding
	foreign bool // has states that are not reported to an account

	descriptor *fnpb.ProcessBundleDescriptor
	sinks      map[string]*collection // by id of the sink
	timers     map[timerFamily]timerCoder
	sides      []*sideInput
	lateness   mtime.Time // allowed lateness of the input in milliseconds

	from []*stage // stages that produce the input; none for an impulse

	shards  []*shard
	in, out mtime.Time // watermarks
	sideIn  mtime.Time // earliest watermark of the side inputs at the last call of unblock
	dealt   int        // number of restrictions dealt to shards
}

// A collection is a PCollection that passes from one stage to others.
type collection struct {
	id       string
	coder    *coder.Coder
	key      exec.ElementDecoder // decoder of the key, if keys are needed; else nil
	winDec   exec.WindowDecoder
	winEnc   exec.WindowEncoder
	strategy *pipepb.WindowingStrategy

	stages []*stage // stages with this main input
	sides  []*sideInput
	onward []onward
}

// grouped reports whether only GroupByKeys consume the collection.
func (c *collection) grouped() bool {
	return len(c.sides)+len(c.onward) == 0 && !slices.ContainsFunc(c.stages, func(s *stage) bool { return s.group == nil })
}

// joins reports whether elements of the collection may be joined. No consumer may need a single element for its key,
// its restriction, or the windows of its side inputs.
func (c *collection) joins() bool {
	return len(c.sides) == 0 &&
		!slices.ContainsFunc(c.stages, func(s *stage) bool { return s.group != nil || s.keyed || s.splits || len(s.sides) > 0 }) &&
		!slices.ContainsFunc(c.onward, func(o onward) bool { return o.convert != nil || !o.dst.joins() })
}

// onward passes the elements of a collection to a collection that includes them.
type onward struct {
	dst     *collection
	convert func([]byte) ([]byte, error) // nil if both have the same coder
}

// A translation divides the steps of a pipeline into stages.
type translation struct {
	components *pipepb.Components
	coders     *graphx.CoderUnmarshaller
	steps      map[string]*pipepb.PTransform // steps that are not composed of others
	payloads   map[string]*pipepb.ParDoPayload
	makers     map[string]string   // step that produces a PCollection
	takers     map[string][]string // steps that consume a PCollection as their main input

	collections map[string]*collection
	impulses    []*collection
	stageOf     map[string]*stage // stage that produces a PCollection
	stages      []*stage          // in the order of their dependencies
	names       map[string]string // names of steps by id
}

// refuseForeign returns an error for transforms of other languages, whose expansion would need a service.
func refuseForeign(edges []*graph.MultiEdge) error {
	for _, e := range edges {
		if e.Op == graph.External && e.External != nil && e.External.Urn != urnTestStream {
			return fmt.Errorf("%s: transforms of other languages are not supported by the direct runner", e.Name())
		}
	}
	return nil
}

func translate(p *pipepb.Pipeline) (*translation, error) {
	t := &translation{
		components: p.GetComponents(), coders: graphx.NewCoderUnmarshaller(p.GetComponents().GetCoders()),
		steps: map[string]*pipepb.PTransform{}, payloads: map[string]*pipepb.ParDoPayload{},
		makers: map[string]string{}, takers: map[string][]string{},
		collections: map[string]*collection{}, stageOf: map[string]*stage{}, names: map[string]string{},
	}
	if err := t.findSteps(); err != nil {
		return nil, err
	}
	order := slices.SortedFunc(maps.Keys(t.steps), byNumber)
	for _, id := range order {
		step := t.steps[id]
		for _, out := range step.GetOutputs() {
			t.makers[out] = id
		}
		if t.bySDK(id) {
			in := step.GetInputs()[mainInput]
			t.takers[in] = append(t.takers[in], id)
		}
	}
	for _, build := range []func(id string) error{t.materializeSides, t.place} {
		for _, id := range order {
			if err := build(id); err != nil {
				return nil, fmt.Errorf("%s: %w", t.names[id], err)
			}
		}
	}
	for _, s := range t.stages {
		if len(s.steps) > 0 {
			if err := t.describe(s); err != nil {
				return nil, fmt.Errorf("%s: %w", s.name, err)
			}
		}
	}
	for _, s := range t.stages {
		if s.input != nil {
			s.from = t.origins(s.input.id)
		}
		for _, side := range s.sides {
			side.from = t.origins(side.collection.id)
		}
	}
	return t, t.sort()
}

// byNumber orders ids so that e9 comes before e10.
func byNumber(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

// findSteps finds the steps, and splits splittable functions into their parts. It returns an error for unsupported
// transforms.
func (t *translation) findSteps() error {
	inside := map[string]bool{} // steps of a Reshuffle, which counts as one step here
	var cover func(id string)
	cover = func(id string) {
		for _, sub := range t.components.GetTransforms()[id].GetSubtransforms() {
			inside[sub] = true
			cover(sub)
		}
	}
	for id, step := range t.components.GetTransforms() {
		if step.GetSpec().GetUrn() == graphx.URNReshuffle {
			cover(id)
		}
	}
	for id, step := range t.components.GetTransforms() {
		t.names[id] = step.GetUniqueName()
		urn := step.GetSpec().GetUrn()
		if inside[id] || len(step.GetSubtransforms()) > 0 && urn != graphx.URNReshuffle {
			continue
		}
		t.steps[id] = step
		switch urn {
		case graphx.URNImpulse, graphx.URNFlatten, graphx.URNReshuffle, graphx.URNGBK, graphx.URNWindow, urnTestStream:
		case graphx.URNParDo:
			if err := t.findParDo(id, step); err != nil {
				return fmt.Errorf("%s: %w", step.GetUniqueName(), err)
			}
		default:
			return fmt.Errorf("%s: transforms of the kind %q are not supported by the direct runner", step.GetUniqueName(), urn)
		}
	}
	return nil
}

func (t *translation) findParDo(id string, step *pipepb.PTransform) error {
	payload := &pipepb.ParDoPayload{}
	if err := proto.Unmarshal(step.GetSpec().GetPayload(), payload); err != nil {
		return err
	}
	t.payloads[id] = payload
	in := t.components.GetPcollections()[step.GetInputs()[mainInput]]
	if keyed(payload) && t.strategy(in).GetMergeStatus() == pipepb.MergeStatus_NEEDS_MERGE {
		return errors.New("state and timers on windows that merge are not supported by the direct runner: states cannot be merged")
	}
	if payload.GetRequiresTimeSortedInput() {
		return errors.New("time-sorted input is not supported by the direct runner")
	}
	if payload.GetRestrictionCoderId() != "" {
		t.takeApart(id, step, payload)
	}
	return nil
}

func keyed(p *pipepb.ParDoPayload) bool {
	return len(p.GetStateSpecs()) > 0 || len(p.GetTimerFamilySpecs()) > 0
}

func (t *translation) strategy(c *pipepb.PCollection) *pipepb.WindowingStrategy {
	return t.components.GetWindowingStrategies()[c.GetWindowingStrategyId()]
}

// takeApart replaces a splittable function by its three steps. They pair an element with its restriction, split the
// restriction, and process the parts.
func (t *translation) takeApart(id string, whole *pipepb.PTransform, payload *pipepb.ParDoPayload) {
	in := t.components.GetPcollections()[whole.GetInputs()[mainInput]]
	paired, sized, size := id+"/paired", id+"/sized", id+"/size"
	pair := func(id string, components ...string) {
		t.components.Coders[id] = &pipepb.Coder{Spec: &pipepb.FunctionSpec{Urn: urnKV}, ComponentCoderIds: components}
		t.components.Pcollections[id] = &pipepb.PCollection{UniqueName: id, CoderId: id, IsBounded: in.GetIsBounded(), WindowingStrategyId: in.GetWindowingStrategyId()}
	}
	t.components.Coders[size] = &pipepb.Coder{Spec: &pipepb.FunctionSpec{Urn: urnDouble}}
	pair(paired, in.GetCoderId(), payload.GetRestrictionCoderId())
	pair(sized, paired, size)
	step := func(name, urn, from string, outputs map[string]string) {
		inputs := maps.Clone(whole.GetInputs())
		inputs[mainInput] = from
		t.steps[id+name] = &pipepb.PTransform{UniqueName: whole.GetUniqueName(), Spec: &pipepb.FunctionSpec{Urn: urn, Payload: whole.GetSpec().GetPayload()}, Inputs: inputs, Outputs: outputs}
		t.payloads[id+name] = payload
		t.names[id+name] = whole.GetUniqueName()
	}
	step("/1pair", urnPair, whole.GetInputs()[mainInput], map[string]string{mainInput: paired})
	step("/2split", urnSplit, paired, map[string]string{mainInput: sized})
	step("/3process", urnProcess, sized, whole.GetOutputs())
	delete(t.steps, id)
	delete(t.payloads, id)
}

// bySDK reports whether package exec runs a step.
func (t *translation) bySDK(id string) bool {
	switch t.steps[id].GetSpec().GetUrn() {
	case graphx.URNImpulse, graphx.URNFlatten, graphx.URNReshuffle, graphx.URNGBK, urnTestStream:
		return false
	}
	return true
}

// sideInputs returns the side inputs that are needed to process a step.
func (t *translation) sideInputs(id string) map[string]*pipepb.SideInput {
	switch t.steps[id].GetSpec().GetUrn() {
	case graphx.URNParDo, urnProcess:
		return t.payloads[id].GetSideInputs()
	}
	return nil
}

// materializeSides makes collections for the PCollections that are side inputs.
func (t *translation) materializeSides(id string) error {
	for local := range t.sideInputs(id) {
		if _, err := t.collection(t.steps[id].GetInputs()[local]); err != nil {
			return err
		}
	}
	return nil
}

// startsStage reports whether a step that the SDK runs starts a stage. Other steps belong to the stage that produces
// their input.
func (t *translation) startsStage(id string) bool {
	return !t.bySDK(t.makers[t.steps[id].GetInputs()[mainInput]]) ||
		t.steps[id].GetSpec().GetUrn() == urnProcess ||
		keyed(t.payloads[id]) && t.steps[id].GetSpec().GetUrn() == graphx.URNParDo ||
		len(t.sideInputs(id)) > 0
}

// place makes the stage of a step that starts one. Flatten and Reshuffle pass their input on.
func (t *translation) place(id string) error {
	step := t.steps[id]
	switch step.GetSpec().GetUrn() {
	case graphx.URNImpulse:
		out, err := t.collection(step.GetOutputs()[mainInput])
		t.impulses = append(t.impulses, out)
		return err
	case graphx.URNFlatten, graphx.URNReshuffle:
		return t.passOn(step)
	case graphx.URNGBK:
		return t.placeGrouping(id)
	case urnTestStream:
		return t.placeTestStream(id)
	}
	if !t.startsStage(id) {
		return nil
	}
	in, err := t.collection(step.GetInputs()[mainInput])
	if err != nil {
		return err
	}
	s := t.add(id, in)
	s.splits = step.GetSpec().GetUrn() == urnProcess
	s.keyed = !s.splits && keyed(t.payloads[id])
	for todo := []string{id}; len(todo) > 0; todo = todo[1:] {
		s.steps = append(s.steps, todo[0])
		for _, out := range t.steps[todo[0]].GetOutputs() {
			t.stageOf[out] = s
			for _, next := range t.takers[out] {
				if !t.startsStage(next) {
					todo = append(todo, next)
				}
			}
		}
	}
	return nil
}

// add adds a stage that starts with a step. in is its input collection, or nil.
func (t *translation) add(id string, in *collection) *stage {
	s := &stage{id: id, name: t.names[id], input: in, in: mtime.MinTimestamp, out: mtime.MinTimestamp, sideIn: mtime.MinTimestamp}
	if in != nil {
		s.lateness = mtime.Time(in.strategy.GetAllowedLateness())
		in.stages = append(in.stages, s)
	}
	t.stages = append(t.stages, s)
	return s
}

func (t *translation) passOn(step *pipepb.PTransform) error {
	for _, out := range step.GetOutputs() {
		dst, err := t.collection(out)
		if err != nil {
			return err
		}
		for _, name := range slices.SortedFunc(maps.Keys(step.GetInputs()), byNumber) {
			in, err := t.collection(step.GetInputs()[name])
			if err != nil {
				return err
			}
			in.onward = append(in.onward, onward{dst, converter(in, dst)})
		}
	}
	return nil
}

func (t *translation) placeGrouping(id string) error {
	step := t.steps[id]
	in, err := t.collection(step.GetInputs()[mainInput])
	if err != nil {
		return err
	}
	out, err := t.collection(step.GetOutputs()[mainInput])
	if err != nil {
		return err
	}
	s := t.add(id, in)
	s.keyed = true
	t.stageOf[step.GetOutputs()[mainInput]] = s
	s.group, err = newGrouping(in, out)
	return err
}

func (t *translation) placeTestStream(id string) error {
	step := t.steps[id]
	s := t.add(id, nil)
	s.script = &testStream{watermark: mtime.MinTimestamp}
	if err := proto.Unmarshal(step.GetSpec().GetPayload(), &s.script.payload); err != nil {
		return err
	}
	for _, out := range step.GetOutputs() {
		var err error
		if s.script.dst, err = t.collection(out); err != nil {
			return err
		}
		t.stageOf[out] = s
	}
	return nil
}

// collection returns the collection of a PCollection that passes between stages. It adds the collection if necessary.
func (t *translation) collection(id string) (*collection, error) {
	if c := t.collections[id]; c != nil {
		return c, nil
	}
	pb := t.components.GetPcollections()[id]
	elements, err := t.coders.Coder(pb.GetCoderId())
	if err != nil {
		return nil, err
	}
	windows, err := t.coders.WindowCoder(t.strategy(pb).GetWindowCoderId())
	if err != nil {
		return nil, err
	}
	c := &collection{id: id, coder: elements, winDec: exec.MakeWindowDecoder(windows), winEnc: exec.MakeWindowEncoder(windows), strategy: t.strategy(pb)}
	t.collections[id] = c
	return c, nil
}

// findKeys sets the key decoder of collections whose keys are needed: by a GroupByKey, a side input with keys, or
// several shards.
func (t *translation) findKeys(shards int) {
	var needsKey func(c *collection) bool
	needsKey = func(c *collection) bool {
		return slices.ContainsFunc(c.stages, func(s *stage) bool { return s.group != nil || s.keyed && shards > 1 }) ||
			slices.ContainsFunc(c.sides, func(s *sideInput) bool { return s.byKey }) ||
			slices.ContainsFunc(c.onward, func(o onward) bool { return needsKey(o.dst) })
	}
	for _, c := range t.collections {
		if needsKey(c) {
			c.key = exec.MakeElementDecoder(c.coder.Components[0])
		}
	}
}

// describe writes the descriptor from which package exec makes the plans of a stage.
func (t *translation) describe(s *stage) error {
	s.sinks, s.timers = map[string]*collection{}, map[timerFamily]timerCoder{}
	d := &fnpb.ProcessBundleDescriptor{
		Id: s.id, Transforms: map[string]*pipepb.PTransform{}, Pcollections: map[string]*pipepb.PCollection{},
		WindowingStrategies: t.components.GetWindowingStrategies(), Coders: maps.Clone(t.components.GetCoders()),
	}
	s.descriptor = d
	// port adds the step through which a PCollection enters or leaves the stage.
	port := func(step, urn, id string) error {
		pb := t.components.GetPcollections()[id]
		windowed := id + "/windowed"
		d.Coders[windowed] = &pipepb.Coder{Spec: &pipepb.FunctionSpec{Urn: urnWindowedValue}, ComponentCoderIds: []string{pb.GetCoderId(), t.strategy(pb).GetWindowCoderId()}}
		payload, err := proto.Marshal(&fnpb.RemoteGrpcPort{CoderId: windowed})
		ends := map[string]string{mainInput: id}
		transform := &pipepb.PTransform{UniqueName: step, Spec: &pipepb.FunctionSpec{Urn: urn, Payload: payload}}
		if urn == urnSource {
			transform.Outputs = ends
		} else {
			transform.Inputs = ends
		}
		d.Transforms[step] = transform
		return err
	}
	if err := port(s.id+"/source", urnSource, s.input.id); err != nil {
		return err
	}
	for _, id := range s.steps {
		step := t.steps[id]
		d.Transforms[id] = step
		for _, in := range step.GetInputs() {
			d.Pcollections[in] = t.components.GetPcollections()[in]
		}
		for _, out := range step.GetOutputs() {
			d.Pcollections[out] = t.components.GetPcollections()[out]
			if c := t.collections[out]; c != nil {
				sink := out + "/sink"
				s.sinks[sink] = c
				if err := port(sink, urnSink, out); err != nil {
					return err
				}
			}
		}
		if err := t.describeTimers(s, id); err != nil {
			return err
		}
		for local, spec := range t.sideInputs(id) {
			side, err := newSideInput(id, local, spec, t.collections[step.GetInputs()[local]])
			if err != nil {
				return err
			}
			side.collection.sides = append(side.collection.sides, side)
			s.sides = append(s.sides, side)
		}
	}
	return nil
}

func (t *translation) describeTimers(s *stage, id string) error {
	if t.steps[id].GetSpec().GetUrn() != graphx.URNParDo {
		return nil
	}
	for name, spec := range t.payloads[id].GetTimerFamilySpecs() {
		c, err := t.coders.Coder(spec.GetTimerFamilyCoderId())
		if err != nil {
			return err
		}
		s.timers[timerFamily{id, name}] = timerCoder{
			key: exec.MakeElementDecoder(c.Components[0]), windows: exec.MakeWindowDecoder(c.Window), window: s.input.winEnc,
			eventTime: spec.GetTimeDomain() != pipepb.TimeDomain_PROCESSING_TIME,
		}
	}
	return nil
}

// origins returns the stages that produce the elements of a PCollection.
func (t *translation) origins(id string) (stages []*stage) {
	if s := t.stageOf[id]; s != nil {
		return []*stage{s}
	}
	if step := t.steps[t.makers[id]]; step.GetSpec().GetUrn() != graphx.URNImpulse {
		for _, in := range step.GetInputs() {
			stages = append(stages, t.origins(in)...)
		}
	}
	return stages
}

// sort puts each stage after its dependencies. It returns an error if there is a cycle.
func (t *translation) sort() error {
	const visiting, visited = 1, 2
	var sorted []*stage
	state := map[*stage]int{}
	var visit func(*stage) error
	visit = func(s *stage) error {
		switch state[s] {
		case visiting:
			return fmt.Errorf("%s: the pipeline has a cycle", s.name)
		case visited:
			return nil
		}
		state[s] = visiting
		deps := slices.Clone(s.from)
		for _, side := range s.sides {
			deps = append(deps, side.from...)
		}
		for _, b := range deps {
			if err := visit(b); err != nil {
				return err
			}
		}
		state[s] = visited
		sorted = append(sorted, s)
		return nil
	}
	for _, s := range t.stages {
		if err := visit(s); err != nil {
			return err
		}
	}
	t.stages = sorted
	return nil
}
