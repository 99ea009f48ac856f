// Package javatest runs Java programs for tests: it fetches their jars by Maven
// and keeps them, and ties their processes to the test's. A test that finds no
// Java or Maven is skipped, or fails if the environment has CI=true.
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

// copyDependencies is the goal of Maven that puts the jars into a folder. Maven
// checks each against the checksum that its repository gives.
const copyDependencies = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"

// A Program is a Java program for tests, of fixed versions.
type Program struct {
	// Name is of a file, with the version, such as kafka-3.9.1. It may have
	// slashes.
	Name string
	// What names the program in messages: "Kafka" or "a Flink cluster".
	What string
	// Dependencies is what Maven fetches, with all that it depends on: the
	// elements of a POM that stand after the project's name.
	Dependencies string
	// Rehearse runs the program once with the given installation, to write
	// archives of loaded classes: see Installation.Archive.
	Rehearse func(testing.TB, Installation)
}

// An Installation is a program whose jars are there.
type Installation struct {
	java string // the program
	// base is the folder of jars, and the beginning of the names of other files.
	base string
	// classPath is what the program is run with: all jars, unless Without left some out.
	classPath string
	// rehearsal is the folder for new archives, if this is a rehearsal.
	rehearsal string
}

// Install finds Java, and the program in the user's cache, where it puts it
// first if it is not there. With -short it skips the test.
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
	if lib := filepath.Join(base, "lib"); isFolder(lib) { // of an archive: the jars that its own depend on
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

// Cache returns the path of a file or folder in which tests keep what is long to
// make, to be made if it is not there. Its name may have slashes. It is locked
// among the processes of this machine, on Linux, until unlock is called.
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

// rehearse runs the program and makes the folder of archives. Classes read from
// there are loaded in about half the time and work. An archive that is not there
// or of another Java is passed over, with less speed.
func rehearse(t testing.TB, p Program, in Installation, archives string) {
	t.Helper()
	t.Logf("starting %s for the first time, to make it start faster later", p.What)
	temp := expect.Get(os.MkdirTemp(filepath.Dir(archives), "rehearse-"))(t)
	defer os.RemoveAll(temp)
	in.rehearsal = temp
	p.Rehearse(t, in)
	if err := os.Rename(temp, archives); err != nil {
		if _, there := os.Stat(archives); there != nil {
			t.Fatal(err)
		}
	}
}

// fetch makes the folder of jars, complete or not at all.
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
		if _, there := os.Stat(jars); there != nil {
			t.Fatal(err)
		}
	}
}

// Command is a command that runs Java with the program's jars. Processes of the
// same role load the same classes, which an archive of that name keeps.
func (in Installation) Command(role string, options []string, class string, args ...string) *exec.Cmd {
	archive := "-XX:SharedArchiveFile=" + filepath.Join(in.base+".archives", role+".jsa")
	if in.rehearsal != "" {
		archive = "-XX:ArchiveClassesAtExit=" + filepath.Join(in.rehearsal, role+".jsa")
	}
	// Java would tell of each class that an archive does not hold.
	return exec.Command(in.java, slices.Concat(options, []string{archive, "-Xlog:cds*=off", "-cp", in.classPath, class}, args)...)
}

// Without is the installation without the jars whose names begin so.
func (in Installation) Without(t testing.TB, prefix string) Installation {
	t.Helper()
	jars := expect.Get(filepath.Glob(filepath.Join(in.base, "*.jar")))(t)
	all := len(jars)
	jars = slices.DeleteFunc(jars, func(jar string) bool { return strings.HasPrefix(filepath.Base(jar), prefix) })
	if len(jars) == all {
		t.Fatalf("no jar in %s begins with %s", in.base, prefix)
	}
	in.classPath = strings.Join(jars, string(os.PathListSeparator))
	return in
}

// Missing ends a test of a program that needs another one that is not there.
func Missing(t testing.TB, what, program string, err error) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("a test against %s cannot run: %v: install %s", what, err, program)
	}
	t.Skipf("NOT TESTED AGAINST %s: %v: install %s", strings.ToUpper(what), err, program)
}

// Ending is the last lines of a log, not counting where in Java's source an
// error arose, which would fill them.
func Ending(log string, lines int) string {
	all := slices.DeleteFunc(strings.Split(strings.TrimSpace(log), "\n"), func(line string) bool {
		return strings.HasPrefix(line, "\tat ")
	})
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// FreePorts returns n ports that nobody listens on. No other test of this machine is given
// them until t ends: a server takes seconds until it listens, and a killed one comes back. They
// are below those that systems give to outgoing connections: a client
// that dials a killed server again and again could otherwise be given the
// server's own port, connect to itself and keep the server from coming back.
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
		if _, held := errors.AsType[*filelock.LockedError](err); held {
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
