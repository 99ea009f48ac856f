// Package e2e runs the program in tests, as processes with a real Kafka broker and a real Flink cluster, and
// compares its outputs. Only tests import it.
package e2e

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/javatest"
)

// Long selects the long form of tests of the program.
var Long = flag.Bool("long", false, "run the long form of tests of the program")

// A Program is a command that runs the program.
type Program struct {
	Path string
	Env  []string // additional environment, each KEY=value
	Tags string   // build tags, for Main
}

// asProgram is the variable that makes a test binary run its program.
const asProgram = "HAFVF_TEST_AS_PROGRAM"

// Self runs the tests of a main package with the test binary as its program, so that the tests see the exit codes and
// streams of a process.
func Self(m *testing.M, p *Program, main func()) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	self, err := os.Executable()
	if err != nil {
		log.Fatal(err)
	}
	*p = Program{Path: self, Env: []string{asProgram + "=1"}}
	flag.Parse()
	expect.Together(4)
	os.Exit(m.Run())
}

// Folder returns a new folder with the given files.
func Folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		expect.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

// Main builds the program and runs the tests of a package with it. With -short it runs no tests: all of them start
// Java programs or other servers.
func Main(m *testing.M, p *Program) {
	flag.Parse()
	if testing.Short() {
		fmt.Println("SKIPPED: the tests with real brokers, clusters and servers; go test without -short runs them")
		return
	}
	expect.Together(4)
	code, err := withProgram(m, p)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// MainOfMinutes is Main for a package whose tests take minutes. They run with CI=true in the environment, and with
// -long.
func MainOfMinutes(m *testing.M, p *Program) {
	flag.Parse()
	if os.Getenv("CI") != "true" && !*Long {
		fmt.Println("SKIPPED: tests of minutes; with CI=true in the environment, go test runs them")
		return
	}
	Main(m, p)
}

func withProgram(m *testing.M, p *Program) (code int, err error) {
	dir, err := os.MkdirTemp("", "hafvf-e2e-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	p.Path = filepath.Join(dir, "hafvf")
	if err := countSources(); err != nil {
		return 0, err
	}
	if err := p.Build(); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// Build builds the program at its path, with additional flags.
func (p Program) Build(flags ...string) error {
	// The state of the repository does not matter here, and git may be missing.
	args := append([]string{"build", "-buildvcs=false", "-tags", p.Tags, "-o", p.Path}, append(flags, "hafvf/cmd/hafvf")...)
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("the program cannot be built: %w\n%s", err, out)
	}
	return nil
}

// countSources reads the metadata of the program's sources. go test caches a result unless the files that a test
// opened have changed, and it does not see the files that the test builds.
func countSources() error {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return fmt.Errorf("the folder of the program is not known: %w", err)
	}
	return filepath.WalkDir(strings.TrimSpace(string(root)), func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "testdata"):
			return filepath.SkipDir
		case filepath.Ext(path) == ".go":
			_, err = os.Stat(path)
		}
		return err
	})
}

func (p Program) command(env []string, args ...string) *exec.Cmd {
	cmd := exec.Command(p.Path, args...)
	cmd.Env = append(append(os.Environ(), p.Env...), env...)
	return cmd
}

// Run runs the program in dir, or in the current folder if dir is empty. It returns the exit code and the streams.
func (p Program) Run(t testing.TB, dir, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := p.command(nil, args...)
	cmd.Dir = dir
	cmd.Stdin = strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// Well is Run for a program that must exit with 0.
func (p Program) Well(t testing.TB, dir string, args ...string) (stdout, stderr string) {
	t.Helper()
	code, stdout, stderr := p.Run(t, dir, "", args...)
	if code != 0 {
		t.Fatalf("hafvf %s: exit %d: %s", strings.Join(args, " "), code, stderr)
	}
	return stdout, stderr
}

// A Daemon is the program running in the background.
type Daemon struct {
	*javatest.Process
	cmd   *exec.Cmd
	log   javatest.Journal
	input io.WriteCloser // set by Pipe
}

// Start starts the program, which ends with the test. env is added to its environment, each KEY=value.
func (p Program) Start(t testing.TB, env []string, args ...string) *Daemon {
	t.Helper()
	return start(t, &Daemon{cmd: p.command(env, args...)})
}

// Pipe starts the program in dir with a pipe as its standard input, to which Say writes.
func (p Program) Pipe(t testing.TB, dir string, args ...string) *Daemon {
	t.Helper()
	d := &Daemon{cmd: p.command(nil, args...)}
	d.cmd.Dir = dir
	d.input = expect.Get(d.cmd.StdinPipe())(t)
	return start(t, d)
}

// Say writes to the standard input of a program that Pipe has started.
func (d *Daemon) Say(t testing.TB, text string) {
	t.Helper()
	expect.Get(io.WriteString(d.input, text))(t)
}

// CloseInput closes the standard input of a program that Pipe has started.
func (d *Daemon) CloseInput(t testing.TB) {
	t.Helper()
	expect.OK(t, d.input.Close())
}

func start(t testing.TB, d *Daemon) *Daemon {
	t.Helper()
	d.cmd.Stdout, d.cmd.Stderr = &d.log, &d.log
	d.Process = expect.Get(javatest.Spawn(d.cmd))(t)
	t.Cleanup(d.Kill)
	return d
}

// Log returns the output of the program so far, from both streams.
func (d *Daemon) Log() string { return d.log.String() }

// Signal sends a signal to the program.
func (d *Daemon) Signal(s syscall.Signal) { d.cmd.Process.Signal(s) } // fails only if it has ended

// Stop sends SIGTERM, after which the program must exit with 0.
func (d *Daemon) Stop(t testing.TB) {
	t.Helper()
	d.Signal(syscall.SIGTERM)
	d.Ends(t, 0)
}

// Ends waits until the program ends and checks its exit code.
func (d *Daemon) Ends(t testing.TB, code int) {
	t.Helper()
	select {
	case <-d.Exited():
		if got := d.cmd.ProcessState.ExitCode(); got != code {
			t.Fatalf("exit %d instead of %d: %v\n%s", got, code, d.Err(), d.Log())
		}
	case <-time.After(Patience):
		t.Fatalf("the program does not end\n%s", d.Log())
	}
}

// Patience is the maximum time for a condition. It is far longer than any condition needs.
const Patience = 3 * time.Minute

// Eventually waits until a condition holds. It fails if the program ends first.
func (d *Daemon) Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(Patience); !holds(); time.Sleep(50 * time.Millisecond) {
		select {
		case <-d.Exited():
			if !holds() {
				t.Fatalf("%s: the program has ended: %v\n%s", what, d.Err(), d.Log())
			}
			return
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v\n%s", what, Patience, d.Log())
		}
	}
}
