// Package e2e runs the program for tests, as processes next to a real Kafka broker and
// a real Flink cluster, and compares what it writes. Only tests import it.
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

// Long asks for the long form of the tests of faults.
var Long = flag.Bool("long", false, "run the long form of the tests of faults")

// A Program is a command that is the program.
type Program struct {
	Path string
	Env  []string // more than this process has, each KEY=value
	Tags string   // of the build, for Main
}

// asProgram makes the binary of a test behave as its program.
const asProgram = "HAFVF_TEST_AS_PROGRAM"

// Self runs the tests of a main package with its program, which is the binary of the tests: exit codes
// and streams are those of a process.
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

// Folder is a new folder with files, by their names.
func Folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		expect.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

// Main runs the tests of a package with the program, which it builds. With -short it runs none: all
// of them start programs in Java, or others.
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

// Build builds the program at its path, with more flags.
func (p Program) Build(flags ...string) error {
	// The state of the repository changes nothing here, and git may be missing.
	args := append([]string{"build", "-buildvcs=false", "-tags", p.Tags, "-o", p.Path}, append(flags, "hafvf/cmd/hafvf")...)
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("the program cannot be built: %w\n%s", err, out)
	}
	return nil
}

// countSources looks at the sources of the program. go test repeats a result without running
// the tests if they would look at the same files, and it sees not what they build.
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

// Run runs the program in dir, or here without one, and returns its exit code and
// streams.
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

// Well is Run of a program that has to exit with 0.
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
	input io.WriteCloser // of Pipe
}

// Start starts the program, which ends with the test. env is added to its
// environment, each KEY=value.
func (p Program) Start(t testing.TB, env []string, args ...string) *Daemon {
	t.Helper()
	return start(t, &Daemon{cmd: p.command(env, args...)})
}

// Pipe starts the program in dir with a pipe as its standard input, into which Say writes.
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

// CloseInput ends the standard input of a program that Pipe has started.
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

// Log is what the program has said so far, on both of its streams.
func (d *Daemon) Log() string { return d.log.String() }

// Signal sends the program a signal.
func (d *Daemon) Signal(s syscall.Signal) { d.cmd.Process.Signal(s) } // fails only when it is gone

// Stop is SIGTERM, after which the program has to end well.
func (d *Daemon) Stop(t testing.TB) {
	t.Helper()
	d.Signal(syscall.SIGTERM)
	d.Ends(t, 0)
}

// Ends waits for the program's end and checks its exit code.
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

// Patience is how long a condition may take to hold. It is far longer than any takes.
const Patience = 3 * time.Minute

// Eventually waits for a condition, and fails if the program ends before it holds.
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
