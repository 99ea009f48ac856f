package kafkatest

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// pom names what Maven fetches.
const pom = `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>hafvf</groupId><artifactId>kafkatest</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>3.9.1</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-reload4j</artifactId><version>1.7.36</version></dependency>
  </dependencies>
</project>
`

// copyDependencies is the goal of Maven that puts the jars into a folder.
const copyDependencies = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"

// A kafka is an installation of Kafka.
type kafka struct {
	java string // the program
	jars string // the folder
	// classes is the option of Java that names an archive of loaded classes.
	classes string
}

// install finds Java, and Kafka in the user's cache, where it puts it first if
// it is not there.
func install(t testing.TB) kafka {
	t.Helper()
	name := "java"
	if home := os.Getenv("JAVA_HOME"); home != "" {
		name = filepath.Join(home, "bin", "java")
	}
	java, err := exec.LookPath(name)
	if err != nil {
		missing(t, "Java, as a package default-jre-headless or openjdk-17-jre-headless, in PATH or JAVA_HOME", err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatalf("there is no folder to keep Kafka's jars in: %v", err)
	}
	cache = filepath.Join(cache, "hafvf-test")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		t.Fatalf("there is no folder to keep Kafka's jars in: %v", err)
	}
	unlock, err := lock(filepath.Join(cache, "lock"))
	if err != nil {
		t.Fatalf("Kafka's folder cannot be locked: %v", err)
	}
	defer unlock()
	jars := filepath.Join(cache, fmt.Sprintf("kafka-3.9.1-%.4x", sha256.Sum256([]byte(pom))))
	if _, err := os.Stat(jars); err != nil {
		fetch(t, cache, jars)
	}
	archive := jars + ".jsa"
	if _, err := os.Stat(archive); err != nil {
		rehearse(t, kafka{java: java, jars: jars}, archive)
	}
	return kafka{java: java, jars: jars, classes: "-XX:SharedArchiveFile=" + archive}
}

// rehearse starts a broker and ends it in peace, so that Java writes the classes
// it has loaded into an archive. With that, a broker starts in 2.3 s in place of
// 3.9, and with half the work. A Java that cannot read the archive, being another one, does without,
// which is why an empty file will do where none was written.
func rehearse(t testing.TB, k kafka, archive string) {
	t.Helper()
	t.Log("starting Kafka for the first time, to make it start faster later")
	temp := filepath.Join(t.TempDir(), "classes.jsa")
	k.classes = "-XX:ArchiveClassesAtExit=" + temp
	b := start(t, k, Config{})
	b.proc.end()
	text, err := os.ReadFile(temp)
	if err != nil {
		t.Logf("Kafka will go on starting slowly: %v\n%s", err, b.tail())
	}
	if err := os.WriteFile(archive+".new", text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(archive+".new", archive); err != nil {
		t.Fatal(err)
	}
}

// fetch makes the folder of jars, complete or not at all.
func fetch(t testing.TB, cache, jars string) {
	t.Helper()
	maven, err := exec.LookPath("mvn")
	if err != nil {
		missing(t, "Maven, as a package maven, in PATH", err)
	}
	temp, err := os.MkdirTemp(cache, "fetch-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(temp)
	if err := os.WriteFile(filepath.Join(temp, "pom.xml"), []byte(pom), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Log("fetching Kafka's jars by Maven, once")
	cmd := exec.Command(maven, "--batch-mode", copyDependencies, "-DincludeScope=runtime", "-DoutputDirectory=jars")
	cmd.Dir = temp
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("Maven does not fetch Kafka's jars, which it needs the network for the first time: %v\n%s", err, out)
	}
	if err := os.Rename(filepath.Join(temp, "jars"), jars); err != nil {
		if _, there := os.Stat(jars); there != nil {
			t.Fatal(err)
		}
	}
}

// missing ends a test that needs a program that is not there.
func missing(t testing.TB, program string, err error) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("a test against a real Kafka broker cannot run: %v: install %s", err, program)
	}
	t.Skipf("NOT TESTED AGAINST A REAL KAFKA BROKER: %v: install %s", err, program)
}
