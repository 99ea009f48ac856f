// Package kafkaio reads and writes Kafka topics in Beam pipelines, in Go. Beam's own kafkaio for Go calls Java's
// transforms and needs an expansion service; this is the only native one that we know of. It needs Kafka 2.1 or newer.
//
//	cluster := kafkaio.Cluster{Brokers: []string{"localhost:9092"}}
//	records := kafkaio.Read(s, kafkaio.Source{Cluster: cluster, Topics: []string{"readings"}})
//	kafkaio.Write(s, kafkaio.Sink{Cluster: cluster, Topic: "results"}, beam.ParDo(s, work, records))
//
// Read takes no collection and returns a PCollection<Record> of keys, values and headers as bytes, with their
// positions. The records of a partition arrive in the order of their offsets, with the event times that Source.Clock
// returns. A bounded source stops at the offsets where the partitions end when it starts. An unbounded source never
// stops, and also reads partitions that are added later. ReadBatches returns a PCollection<Batch> of the records as
// they were fetched. A runner needs far less time for batches than for single records.
//
// Write takes a PCollection<KV<[]byte, []byte>> of keys and values. It stores every message at least once. WriteChunks
// takes a PCollection<[]byte>, in which each element is a connectors.Chunk of messages: lines, each with a key and an
// id. A message that is stored twice has the same id both times, in the header "id", so that consumers of the topic
// can drop repeats.
//
// A Form converts records of a topic to JSON, and lines of JSON to messages of a topic. Package registry has a Form
// for topics with a schema registry.
//
// After a failure, the runner determines where a pipeline resumes. A runner with checkpoints, such as Flink, stores
// the source's offsets in them: records after the last checkpoint are read and written again. A consumer group only
// determines where a source with Start.At Committed starts: Read commits no offsets.
//
// A Ledger is for runners without checkpoints, such as the embedded one. It stores a pipeline's states in a compacted
// topic, the changelog, and commits the group's offsets when the results of all records before them are stored. It
// also keeps the source from reading faster than the pipeline works. Source and sinks find the ledger in the context
// that Ledger.Context returns.
//
// A changelog has one owner, a process that commits states and offsets in one transaction. The transactional id
// derives from the name of the changelog. When another process becomes the owner, the brokers refuse the transactions
// of the previous owner. Membership in the group would only fence the offsets: readers of the changelog would have to
// separate states by generation.
package kafkaio
