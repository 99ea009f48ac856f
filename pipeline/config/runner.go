package config

import (
	"net"
	"time"

	"hafvf/internal/message"
	"hafvf/pipeline/flink"
)

// Values of Runner.Name.
const (
	Direct = "direct" // this process
	Flink  = "flink"  // a cluster
)

// prism is what the runner of this process was called before.
const prism = "prism"

// A Runner executes the pipeline.
type Runner struct {
	Name string
	// All others are those of Flink, see flink.Options.
	Cluster                     flink.Cluster
	Job, Worker                 string
	Parallelism, MaxParallelism int
	// Cells is the number of states that keys share; 0: each has its own.
	Cells              int
	CheckpointInterval time.Duration
	// Poll is how long the source gathers records before it hands them over.
	Poll time.Duration
}

func (r *Runner) keys() []key {
	r.Job, r.Worker, r.Parallelism, r.MaxParallelism = "hafvf", "localhost:50000", 1, 128
	r.Cells = DefaultCells
	r.CheckpointInterval, r.Poll = 10*time.Second, 100*time.Millisecond
	return []key{
		{name: "name", doc: "direct runs in this process, flink on a cluster. prism is another name of direct.", read: choice(&r.Name, Direct, prism, Flink)},
		{name: "endpoint", doc: "flink: host:port of Beam's job server; required.", read: text(&r.Cluster.Endpoint, notEmpty)},
		{name: "rest", doc: "flink: address of the JobManager.", initial: "http://HOST:8081, HOST being the endpoint's", read: text(&r.Cluster.REST, notEmpty)},
		{name: "job", doc: "flink: name of the job. A cluster runs one job of a name at a time.", read: text(&r.Job, notEmpty)},
		{name: "worker", doc: "flink: address of hafvf worker as a TaskManager sees it.", read: text(&r.Worker, notEmpty)},
		{name: "parallelism", doc: "flink: slots that the job takes.", unit: "slots", read: whole(&r.Parallelism, 1)},
		{name: "max_parallelism", doc: "flink: largest parallelism at which a savepoint can be resumed. Fixed from the job's first start.", unit: "slots", read: whole(&r.MaxParallelism, 1)},
		{name: "cells", doc: "flink: number of states that keys share; 0: each has its own. Shared ones make keys with few records cheap, and take memory of the workers. Fixed from the job's first start.", read: whole(&r.Cells, 0)},
		{name: "checkpoint_interval", doc: "flink: time between checkpoints.", read: milliseconds(&r.CheckpointInterval)},
		{name: "poll", doc: "flink: how long the source gathers records before it hands them to the filters.", read: milliseconds(&r.Poll)},
	}
}

// DefaultCells is the number of states that keys share where the config does not say.
const DefaultCells = 256

// ofOneMachine is what flink says of files.
const ofOneMachine = "is a file of one machine: flink reads and writes topics, kafka"

// checkRunner refuses what a runner cannot do.
func (d *decoder) checkRunner(c *Config) {
	r := &c.Runner
	if r.Name == prism {
		r.Name = Direct
	}
	if d.failed("runner.name") {
		return
	}
	if r.Name == Direct {
		for _, k := range r.keys()[1:] {
			if at := join("runner", k.name); d.has(at) {
				d.fail(at, "belongs to name: flink")
			}
		}
		*r = Runner{Name: Direct}
		return
	}
	if r.Cluster.Endpoint == "" && !d.failed("runner.endpoint") {
		d.fail("runner.endpoint", "missing; flink requires it: host:port of Beam's job server")
	} else if host, _, err := net.SplitHostPort(r.Cluster.Endpoint); err != nil {
		if !d.failed("runner.endpoint") {
			d.fail("runner.endpoint", "%s is not host:port", message.Quote(r.Cluster.Endpoint))
		}
	} else if r.Cluster.REST == "" {
		r.Cluster.REST = "http://" + net.JoinHostPort(host, "8081")
	}
	if r.MaxParallelism < r.Parallelism {
		d.fail("runner.parallelism", "is above max_parallelism, %d", r.MaxParallelism)
	}
	if 0 < r.Cells && r.Cells < r.Parallelism {
		d.fail("runner.cells", "is below parallelism, %d: some slots would have nothing to do", r.Parallelism)
	}
	for _, o := range c.Source.Origins {
		o.checkFlink(d)
	}
	if c.State != "" {
		d.fail("state", "is for the runner direct: flink keeps the states in its checkpoints")
	}
	switch {
	case c.Sink.Kafka != nil || c.Sink.None || d.failed("sink"):
	case !d.has("sink"):
		d.fail("sink", "missing; flink requires a topic, kafka, or none")
	default:
		d.fail("sink", ofOneMachine)
	}
	if c.DeadLetter != nil && c.DeadLetter.Kafka == nil {
		d.fail("dead_letter", ofOneMachine+"; without one, rejects go to the workers' standard error")
	}
	for _, r := range c.Alerts {
		if r.Kafka == nil && r.Webhook == nil {
			d.fail(r.At, ofOneMachine)
		}
	}
}
