package flinktest

import (
	"testing"

	"hafvf/internal/testing/javatest"
)

// flink has the dependencies for Maven: Beam's job server and runner, whose own dependencies are a Flink cluster
// except for the state backend, the version of Flink, and the logging libraries. Not all artifacts of newer Beam
// releases are published there.
//
// The job server would send its whole class path with each job, which takes 20 s with such a cluster. It does not
// send files below gradle/wrapper (PipelineResources.isStageable), and need not: the cluster has the same jars.
var flink = javatest.Program{
	Name: "gradle/wrapper/flink-1.19.3-beam-2.62.0",
	What: "a real Flink cluster",
	Dependencies: `  <properties><flink>1.19.3</flink></properties>
  <dependencyManagement><dependencies>
    <dependency><groupId>org.apache.flink</groupId><artifactId>flink-annotations</artifactId><version>${flink}</version></dependency>
    <dependency><groupId>org.apache.flink</groupId><artifactId>flink-core</artifactId><version>${flink}</version></dependency>
    <dependency><groupId>org.apache.flink</groupId><artifactId>flink-java</artifactId><version>${flink}</version></dependency>
    <dependency><groupId>org.apache.flink</groupId><artifactId>flink-metrics-core</artifactId><version>${flink}</version></dependency>
    <dependency><groupId>org.apache.flink</groupId><artifactId>flink-runtime</artifactId><version>${flink}</version></dependency>
    <dependency><groupId>org.apache.flink</groupId><artifactId>flink-streaming-java</artifactId><version>${flink}</version></dependency>
  </dependencies></dependencyManagement>
  <dependencies>
    <dependency><groupId>org.apache.beam</groupId><artifactId>beam-runners-flink-1.19</artifactId><version>2.62.0</version></dependency>
    <dependency><groupId>org.apache.flink</groupId><artifactId>flink-clients</artifactId><version>${flink}</version></dependency>
    <dependency><groupId>org.apache.flink</groupId><artifactId>flink-statebackend-rocksdb</artifactId><version>${flink}</version></dependency>
    <dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-core</artifactId><version>2.17.1</version></dependency>
    <dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId><version>2.17.1</version></dependency>
  </dependencies>
`,
	Rehearse: func(t testing.TB, in javatest.Installation) {
		c := start(t, in, Config{TaskManagers: 1})
		for _, p := range []*javatest.Process{c.taskManagers[0], c.jobServer, c.jobManager} {
			p.End()
		}
	},
}
