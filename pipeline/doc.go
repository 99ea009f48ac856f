// Package pipeline composes a config into a graph of Beam steps, and runs the graph in this process or submits it
// to a Flink cluster.
//
//	cfg, err := config.Parse("pump.yaml", text, nil)
//	graph, err := pipeline.Compose(cfg)
//	summary, err := pipeline.Run{Graph: graph}.Execute(ctx, stop)
//
// # The path of a record
//
// A record passes these stages, from the source to the sink:
//
//   - connectors.Read, kafkaio.ReadBatches or promio.Read reads the record, in a batch with its neighbours. If its
//     topic has a schema registry, connectors/registry converts the value to JSON. At the end of a bundle of
//     batches the source registers the records with the run (internal/account), and waits until the previous
//     bundle is finished.
//   - Package decode converts the record to an observation of a key, in the first step of
//     transforms.FilterEncoded (source.go). That step packs the observations of each key into a block. A record
//     that cannot be decoded goes to the dead letter.
//   - A node of package transforms gets the block and the state of the key. keyed.KeyState takes the observation: it
//     skips repeats, rejects late observations, and buffers early ones.
//   - keyed.Estimator predicts and learns the observation, and decides whether it is an alarm.
//   - The encoder (encode.go) appends the estimate and its alerts to chunks of lines, in the layout of package
//     records, and counts them for the summary.
//   - sink.go writes the chunks to a file, a topic or Prometheus. Alerts for a webhook go to an outbox, which sends
//     them in the background (receivers.go). When the outputs of all registered records are stored, the run
//     commits states and offsets (kafkaio.Ledger, runstates.go).
//
// With transform: smooth, a window gathers the observations of a session first, and keyed.Smoother replaces
// keyed.KeyState and keyed.Estimator.
//
// # Packages
//
//   - settings and settings/keytable: the settings of the model, and the tables of config keys
//   - config: sources, sinks and runner of a config; seasontrial tests whether a season improves a config
//   - decode: records to observations; records: estimates and alerts to records
//   - sniff: inspects data for hafvf check and hafvf init
//   - direct: runs a pipeline in this process; flink: submits it to a Flink cluster
//   - statebackend: stores the states of the keys in a file or a changelog topic
//
// states.go lists and checks stored states without a run.
package pipeline
