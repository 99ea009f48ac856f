// Package kafkaio reads and writes Kafka topics in Beam pipelines, in Go. Beam's own
// kafkaio for Go calls Java's transforms and needs an expansion service; this is the
// only native one that we know of. It speaks to Kafka 2.1 and newer.
//
//	cluster := kafkaio.Cluster{Brokers: []string{"localhost:9092"}}
//	records := kafkaio.Read(s, kafkaio.Source{Cluster: cluster, Topics: []string{"readings"}})
//	kafkaio.Write(s, kafkaio.Sink{Cluster: cluster, Topic: "results"}, beam.ParDo(s, work, records))
//
// Read takes no collection and returns a PCollection<Record> of keys, values and
// headers as bytes, with their positions. Within a partition the records come in the
// order of their offsets, at the event times that Source.Clock gives them. A bounded
// source ends at the ends that the partitions have when it starts; another one never
// ends and also reads partitions that are added later. ReadBatches returns the records
// as they were fetched, in a PCollection<Batch>, which takes a runner far less time than
// single records do.
//
// Write takes a PCollection<KV<[]byte, []byte>> of keys and values. It stores every message
// at least once. WriteChunks takes a PCollection<[]byte>, in which each element is a
// connectors.Chunk of messages: lines, each with a key and an id. A message that is stored
// again has the same id, in the header "id", so that consumers of the topic can drop repeats.
//
// A Form turns what a topic has into JSON, and lines of JSON into what a topic has. Package
// registry has one for topics with a schema registry.
//
// Where a pipeline goes on after a failure depends on the runner. One with checkpoints,
// such as Flink, keeps the source's offsets in them; what was read after the last
// checkpoint is read and written again. A consumer group only says where a source with
// Start.At Committed begins: Read commits no offsets.
//
// A Ledger is for runners without checkpoints, such as the embedded one. It keeps a
// pipeline's states in a compacted topic and commits the group's offsets when
// everything that was read is stored. It also keeps the source from reading faster than
// the pipeline works. Source and sinks find it in the context that Ledger.In returns.
//
// One process at a time owns a changelog. It commits states and offsets in one
// transaction, by a transactional id that the changelog's name gives, and the next process
// that takes the changelog over makes the brokers refuse the transactions of the one
// before. Membership in the group would fence the offsets alone, and would leave it to
// whatever reads the changelog to sort out states by generation.
//
// kafka-go is source and sink, and asks the brokers. franz-go does the transactions of an
// owner, as kafka-go has none that are fenced (owner.go). Two of franz-go's messages also
// serve the Client and the source: kafka-go asks for topics in a version without their ids,
// and its fetches fail at compacted batches (wire.go). All connections come from one dialer
// (dial.go), and requests are repeated by one policy (retry.go).
package kafkaio
