// Package javatest runs Java programs for tests: it fetches their jars with Maven, caches them, and ends the
// processes with the test's process. Without Java or Maven a test is skipped, or fails if the environment has
// CI=true.
package javatest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"hafvf/internal/filelock"
	"hafvf/internal/testing/expect"
)

// copyDependencies is the Maven goal that copies the jars into a folder. Maven compares each jar with the checksum
// of its repository.
const copyDependencies = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"

// A Program is a Java program for tests, with fixed versions.
type Program struct {
	// Name is used as a file name. It includes the version, as in kafka-3.9.1, and may contain slashes.
	Name string
	// What names the program in messages: "Kafka" or "a Flink cluster".
	What string
	// Dependencies lists the direct dependencies that Maven fetches: the elements of a POM after the project's
	// name.
	Dependencies string
	// Rehearse runs the program once with the given installation, to write archives of loaded classes, see
	// rehearse.
	Rehearse func(testing.TB, Installation)
}

// An Installation is a program whose jars have been fetched.
type Installation struct {
	java string // path of the java command
	// base is the folder of jars, and the prefix of the names of other files.
	base string
	// classPath has all jars, except those that Without removed.
	classPath string
	// rehearsal is the folder for new archives during a rehearsal, otherwise empty.
	rehearsal string
}

// Install finds Java and the program in the user's cache. If the program is missing there, Install fetches it. With
// -short it skips the test.
func Install(t testing.TB, p Program) Installation {
	t.Helper()
	if testing.Short() {
		t.Skipf("-short starts no %s", p.What)
	}
	name := "java"
	if home := os.Getenv("JAVA_HOME"); home != "" {
		name = filepath.Join(home, "bin", "java")
	}
	java, err := exec.LookPath(name)
	if err != nil {
		Missing(t, p.What, "Java, as a package default-jre-headless or openjdk-17-jre-headless, in PATH or JAVA_HOME", err)
	}
	base, unlock := Cache(t, fmt.Sprintf("%s-%.4x", p.Name, sha256.Sum256([]byte(p.pom()))))
	defer unlock()
	in := Installation{java: java, base: base, classPath: filepath.Join(base, "*")}
	if _, err := os.Stat(base); err != nil {
		fetch(t, p, base)
	}
	if lib := filepath.Join(base, "lib"); isFolder(lib) { // of a tar archive: jars on which its own jars depend
		in.classPath += string(os.PathListSeparator) + filepath.Join(lib, "*")
	}
	archives := in.base + ".archives"
	if _, err := os.Stat(archives); err != nil {
		rehearse(t, p, in, archives)
	}
	return in
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// Cache returns the path of a file or folder for results that are slow to make; the caller creates it if it is
// missing. name may contain slashes. On Linux the path is locked against other processes until unlock is called.
func Cache(t testing.TB, name string) (path string, unlock func()) {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatalf("there is no folder to keep programs for tests in: %v", err)
	}
	path = filepath.Join(cache, "hafvf-test", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatalf("there is no folder to keep programs for tests in: %v", err)
	}
	unlock, err = lock(path + ".lock")
	if err != nil {
		t.Fatalf("what tests keep cannot be locked: %v", err)
	}
	return path, unlock
}

func (p Program) pom() string {
	return `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>hafvf</groupId><artifactId>javatest</artifactId><version>1</version><packaging>pom</packaging>
` + p.Dependencies + `</project>
`
}

// rehearse runs the program and creates the folder of class archives. Loading classes from an archive takes about
// half the time and work. Java ignores an archive that is missing or of another Java version, and is slower then.
func rehearse(t testing.TB, p Program, in Installation, archives string) {
	t.Helper()
	t.Logf("starting %s for the first time, to make it start faster later", p.What)
	temp := expect.Get(os.MkdirTemp(filepath.Dir(archives), "rehearse-"))(t)
	defer os.RemoveAll(temp)
	in.rehearsal = temp
	p.Rehearse(t, in)
	if err := os.Rename(temp, archives); err != nil {
		if _, statErr := os.Stat(archives); statErr != nil {
			t.Fatal(err)
		}
	}
}

// fetch creates the folder of jars, completely or not at all.
func fetch(t testing.TB, p Program, jars string) {
	t.Helper()
	maven, err := exec.LookPath("mvn")
	if err != nil {
		Missing(t, p.What, "Maven, as a package maven, in PATH", err)
	}
	temp := expect.Get(os.MkdirTemp(filepath.Dir(jars), "fetch-"))(t)
	defer os.RemoveAll(temp)
	expect.OK(t, os.WriteFile(filepath.Join(temp, "pom.xml"), []byte(p.pom()), 0o600))
	t.Logf("fetching the jars of %s by Maven, once", p.What)
	cmd := exec.Command(maven, "--batch-mode", "--strict-checksums", copyDependencies, "-DincludeScope=runtime", "-DoutputDirectory=jars")
	cmd.Dir = temp
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("Maven does not fetch the jars of %s, which it needs the network for the first time: %v\n%s", p.What, err, out)
	}
	archives := expect.Get(filepath.Glob(filepath.Join(temp, "jars", "*.tar.gz")))(t)
	for _, archive := range archives {
		if out, err := exec.Command("tar", "-xzf", archive, "-C", filepath.Dir(archive)).CombinedOutput(); err != nil {
			t.Fatalf("%s cannot be unpacked: %v\n%s", filepath.Base(archive), err, out)
		}
		expect.OK(t, os.Remove(archive))
	}
	if err := os.Rename(filepath.Join(temp, "jars"), jars); err != nil {
		if _, statErr := os.Stat(jars); statErr != nil {
			t.Fatal(err)
		}
	}
}

// Command returns a command that runs Java with the program's jars. Processes with the same role load the same
// classes and share an archive with that name.
func (in Installation) Command(role string, options []string, class string, args ...string) *exec.Cmd {
	archive := "-XX:SharedArchiveFile=" + filepath.Join(in.base+".archives", role+".jsa")
	if in.rehearsal != "" {
		archive = "-XX:ArchiveClassesAtExit=" + filepath.Join(in.rehearsal, role+".jsa")
	}
	// Without this option Java logs each class that the archive lacks.
	return exec.Command(in.java, slices.Concat(options, []string{archive, "-Xlog:cds*=off", "-cp", in.classPath, class}, args)...)
}

// Without returns the installation without the jars whose names have that prefix.
func (in Installation) Without(t testing.TB, prefix string) Installation {
	t.Helper()
	jars := expect.Get(filepath.Glob(filepath.Join(in.base, "*.jar")))(t)
	total := len(jars)
	jars = slices.DeleteFunc(jars, func(jar string) bool { return strings.HasPrefix(filepath.Base(jar), prefix) })
	if len(jars) == total {
		t.Fatalf("no jar in %s begins with %s", in.base, prefix)
	}
	in.classPath = strings.Join(jars, string(os.PathListSeparator))
	return in
}

// Missing skips a test for which a program is missing. If the environment has CI=true, the test fails.
func Missing(t testing.TB, what, program string, err error) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("a test against %s cannot run: %v: install %s", what, err, program)
	}
	t.Skipf("NOT TESTED AGAINST %s: %v: install %s", strings.ToUpper(what), err, program)
}

// Ending returns the last lines of a log. It leaves out stack frames in Java's source, which would fill them.
func Ending(log string, lines int) string {
	lastLines := slices.DeleteFunc(strings.Split(strings.TrimSpace(log), "\n"), func(line string) bool {
		return strings.HasPrefix(line, "\tat ")
	})
	return strings.Join(lastLines[max(0, len(lastLines)-lines):], "\n")
}

// FreePorts returns n ports on which nothing listens. No other test on this machine receives them until t ends: a
// server takes seconds until it listens, and a killed server may restart. The ports are below the range for
// outgoing connections. Otherwise a client that dials a killed server repeatedly could receive the server's own
// port, connect to itself and keep the server from starting again.
func FreePorts(t testing.TB, n int) []int {
	t.Helper()
	locks := filepath.Join(os.TempDir(), "hafvf-ports")
	expect.OK(t, os.MkdirAll(locks, 0o777))
	var ports []int
	for tries := 0; len(ports) < n; tries++ {
		if tries == 1000 {
			t.Fatal("no free port on the loopback")
		}
		port := 20000 + mathrand.IntN(12000)
		lock, err := filelock.Acquire(filepath.Join(locks, strconv.Itoa(port)))
		if _, locked := errors.AsType[*filelock.LockedError](err); locked {
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			lock.Release()
			continue
		}
		l.Close()
		t.Cleanup(lock.Release)
		ports = append(ports, port)
	}
	return ports
}
