// Package registrytest starts a schema registry for tests: Apicurio, a Java process on loopback that stores schemas
// in memory and has the API of Confluent's registry. It takes about ten seconds to start.
package registrytest

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"
	"time"

	"hafvf/internal/testing/javatest"
)

// apicurio is the last version for Java 17 whose parent is available from Maven.
var apicurio = javatest.Program{
	Name: "apicurio-2.6.13",
	What: "a schema registry",
	Dependencies: `  <dependencies>
    <dependency>
      <groupId>io.apicurio</groupId><artifactId>apicurio-registry-app</artifactId><version>2.6.13.Final</version>
      <classifier>all</classifier><type>tar.gz</type>
      <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>
    </dependency>
  </dependencies>
`,
	Rehearse: func(t testing.TB, installation javatest.Installation) {
		_, p := start(t, installation)
		p.End()
	},
}

// startTimeout is far longer than the registry takes to start.
const startTimeout = 2 * time.Minute

// Start starts a registry on a free port and returns its URL when it answers. The registry ends with the test.
// Without Java or Maven the test is skipped, or fails if the environment has CI=true.
func Start(t testing.TB) (url string) {
	t.Helper()
	url, _ = start(t, javatest.Install(t, apicurio))
	return url
}

func start(t testing.TB, installation javatest.Installation) (url string, p *javatest.Process) {
	t.Helper()
	port := javatest.FreePorts(t, 1)[0]
	cmd := installation.Command("registry", []string{"-Xmx512m", "-Dquarkus.http.host=127.0.0.1", fmt.Sprintf("-Dquarkus.http.port=%d", port)}, "io.quarkus.runner.GeneratedMain")
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Dir = &log, &log, t.TempDir()
	p, err := javatest.Spawn(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("the log of the registry ended with\n%s", javatest.Ending(log.String(), 40))
		}
	})
	url = fmt.Sprintf("http://127.0.0.1:%d/apis/ccompat/v7", port)
	for started := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		if answer, err := http.Get(url + "/subjects"); err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return url, p
			}
		}
		if p.Err() != nil || time.Since(started) > startTimeout {
			t.Fatalf("the registry does not start: %v", p.Err())
		}
	}
}
