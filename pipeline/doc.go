// Package pipeline composes a config into a graph of Beam steps, and runs the graph in this
// process or hands it to a Flink cluster.
//
//	cfg, err := config.Parse("pump.yaml", text, nil)
//	graph, err := pipeline.Compose(cfg)
//	summary, err := pipeline.Run{Graph: graph}.Execute(ctx, stop)
//
// # The way of one record
//
// A record passes these places, from the source to the sink:
//
//   - connectors.Read, kafkaio.ReadBatches or promio.Read reads it, in a batch with its
//     neighbours. If it has a schema, connectors/registry makes JSON of it.
//     At the end of a bundle of batches the source hands its records over to the books of
//     the run (internal/account), and waits until the bundle before is done.
//   - Package observe turns it into an observation of a key, inside of the first step of
//     transforms.FilterEncoded (source.go). That step packs the observations of each key into
//     a block. A record that is no observation goes to the dead letter.
//   - The node of transforms gets the block with the key's state. A keyed.KeyState takes the
//     observation: it skips a repeat, rejects what is late, and holds back what is early.
//   - keyed.Estimator predicts the observation and learns it, and says whether it is an alarm.
//   - The encoder of encode.go appends the estimate and its alerts to chunks of lines, as
//     package records lays them out, and counts them for the summary.
//   - sink.go writes the chunks: to a file or a topic, or for a webhook to an outbox, which
//     sends alerts beside the pipeline (receivers.go). When all that was handed
//     over is stored, the run commits states and offsets (kafkaio.Ledger, runstates.go).
//
// With transform: smooth the observations of a session are gathered in a window first, and
// a keyed.Smoother takes the place of the entity.
//
// Without a run, package inspect looks at data, for hafvf check and hafvf init, and
// states.go reads stored states.
package pipeline
