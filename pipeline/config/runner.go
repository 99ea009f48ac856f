package config

import (
	"net"
	"time"

	"hafvf/internal/message"
	"hafvf/pipeline/flink"
	"hafvf/pipeline/settings/keytable"
)

// Values of Runner.Name.
const (
	Direct = "direct" // this process
	Flink  = "flink"  // a cluster
)

// prism is the former name of the runner in this process.
const prism = "prism"

// A Runner executes the pipeline.
type Runner struct {
	Name string
	// All other fields are for Flink, see flink.Options.
	Cluster                     flink.Cluster
	Job, Worker                 string
	Parallelism, MaxParallelism int
	// Cells is the number of states that keys share; 0: each key has its own.
	Cells              int
	CheckpointInterval time.Duration
	// Poll is how long the source gathers records before it emits them.
	Poll time.Duration
}

func (r *Runner) keys() []keytable.Key {
	r.Job, r.Worker, r.Parallelism, r.MaxParallelism = "hafvf", "localhost:50000", 1, 128
	r.Cells = DefaultCells
	r.CheckpointInterval, r.Poll = 10*time.Second, 100*time.Millisecond
	return []keytable.Key{
		{Name: "name", Doc: "direct runs in this process, flink on a cluster. prism is another name of direct.", Read: keytable.Choice(&r.Name, Direct, prism, Flink)},
		{Name: "endpoint", Doc: "flink: host:port of Beam's job server; required.", Read: keytable.Text(&r.Cluster.Endpoint, keytable.NotEmpty)},
		{Name: "rest", Doc: "flink: address of the JobManager.", Initial: "http://HOST:8081, HOST being the endpoint's", Read: keytable.Text(&r.Cluster.REST, keytable.NotEmpty)},
		{Name: "job", Doc: "flink: name of the job. A cluster runs only one job with this name at a time.", Read: keytable.Text(&r.Job, keytable.NotEmpty)},
		{Name: "worker", Doc: "flink: address of hafvf worker as a TaskManager sees it.", Read: keytable.Text(&r.Worker, keytable.NotEmpty)},
		{Name: "parallelism", Doc: "flink: slots that the job takes.", Unit: "slots", Read: keytable.Whole(&r.Parallelism, 1)},
		{Name: "max_parallelism", Doc: "flink: largest parallelism at which a savepoint can be resumed. Fixed from the job's first start.", Unit: "slots", Read: keytable.Whole(&r.MaxParallelism, 1)},
		{Name: "cells", Doc: "flink: number of states that keys share; with 0, each key has its own. Shared states make keys with few records cheap, and use memory of the workers. Fixed from the job's first start.", Read: keytable.Whole(&r.Cells, 0)},
		{Name: "checkpoint_interval", Doc: "flink: time between checkpoints.", Read: keytable.Milliseconds(&r.CheckpointInterval)},
		{Name: "poll", Doc: "flink: how long the source collects records before it passes them to the filters.", Read: keytable.Milliseconds(&r.Poll)},
	}
}

// DefaultCells is the default of Runner.Cells.
const DefaultCells = 256

// localFileReason is the error for files with the runner flink.
const localFileReason = "is a local file: flink reads and writes topics (kafka)"

// checkRunner refuses settings that the runner does not support.
func (d *decoder) checkRunner(c *Config) {
	r := &c.Runner
	if r.Name == prism {
		r.Name = Direct
	}
	if d.Failed("runner.name") {
		return
	}
	if r.Name == Direct {
		for _, k := range r.keys()[1:] {
			d.Refuse(keytable.Join("runner", k.Name), "belongs to name: flink")
		}
		*r = Runner{Name: Direct}
		return
	}
	if r.Cluster.Endpoint == "" && !d.Failed("runner.endpoint") {
		d.Fail("runner.endpoint", "missing; flink requires it: host:port of Beam's job server")
	} else if host, _, err := net.SplitHostPort(r.Cluster.Endpoint); err != nil {
		if !d.Failed("runner.endpoint") {
			d.Fail("runner.endpoint", "%s is not host:port", message.Quote(r.Cluster.Endpoint))
		}
	} else if r.Cluster.REST == "" {
		r.Cluster.REST = "http://" + net.JoinHostPort(host, "8081")
	}
	if r.MaxParallelism < r.Parallelism {
		d.Fail("runner.parallelism", "is above max_parallelism, %d", r.MaxParallelism)
	}
	if 0 < r.Cells && r.Cells < r.Parallelism {
		d.Fail("runner.cells", "is below parallelism, %d: some slots would be idle", r.Parallelism)
	}
	for _, o := range c.Source.Origins {
		o.checkFlink(d)
	}
	if c.State != "" {
		d.Fail("state", "is for the runner direct: flink keeps the states in its checkpoints")
	}
	switch {
	case c.Sink.Kafka != nil || c.Sink.Discard || d.Failed("sink"):
	case !d.Has("sink"):
		d.Fail("sink", "missing; flink requires a topic, kafka, or none")
	default:
		d.Fail("sink", localFileReason)
	}
	if c.DeadLetter != nil && c.DeadLetter.Kafka == nil {
		d.Fail("dead_letter", localFileReason+"; without one, rejects go to the workers' standard error")
	}
	for _, r := range c.Alerts {
		if r.Kafka == nil && r.Webhook == nil {
			d.Fail(r.Path, localFileReason)
		}
	}
}
