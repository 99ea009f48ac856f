package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hafvf/internal/testing/e2e"
	"hafvf/internal/testing/expect"
)

var program e2e.Program

func TestMain(m *testing.M) { e2e.Self(m, &program, main) }

const (
	goodCSV  = "key,time,x\na,2026-01-01T00:00:00Z,1.5\na,2026-01-01T00:00:01Z,oops\na,2026-01-01T00:00:02Z,2\n"
	goodYAML = "model: {family: normal}\nsource: {csv: {path: in.csv}}\n"
)

func TestExitCodes(t *testing.T) {
	t.Parallel()
	dir := e2e.Folder(t, map[string]string{
		"in.csv":          goodCSV,
		"fine.csv":        strings.Replace(goodCSV, "oops", "1.25", 1),
		"estimates.jsonl": `{"key":"a","time":"2026-01-01T00:00:00Z","n":1,"x":1,"predicted":{"mean":1,"sd":1}}` + "\n",
		"empty.jsonl":     "",
		"ok.yaml":         goodYAML,
		"bad.yaml":        "model: {famly: normal}\n",
		"stdin.yaml":      "model: {family: normal}\ndetect: true\nsource: {csv: {path: '-'}}\n",
		"big.yaml":        strings.Repeat("#", 10<<20),
		"topics.yaml": "model: {family: normal}\nsource: {kafka: {brokers: [b], topics: [in], group: g, sasl: {mechanism: plain, username: u, password: {env: P}}}}\n" +
			"sink: {kafka: {topic: out}}\n",
	})
	expect.OK(t, os.Symlink("estimates.jsonl", filepath.Join(dir, "linked.csv")))
	expect.OK(t, os.Mkdir(filepath.Join(dir, "saved"), 0o700))
	expect.OK(t, os.WriteFile(filepath.Join(dir, "saved", "_metadata"), nil, 0o600))
	exits(t, dir, "model: {family: normal}\nsource: {csv: {path: '-'}}\n", "", append([]exit{
		{"done with a reject", "run ok.yaml", 0, "1 rejected"},
		{"flags before arguments", "run --set top=0.5 ok.yaml", 0, "1 key, "},
		{"flags behind arguments", "run ok.yaml --set top=0.5", 0, "1 key, "},
		{"check", "check ok.yaml", 0, ""},
		{"check without its data", "check ok.yaml --set source.csv.path=no.csv", 0, ""},
		{"check of changes that no key raises", `check ok.yaml --set detect=true --set alerts={"jsonl":{"path":"a"},"kinds":["change"]}`, 0, "warning: alerts.kinds: no key can raise change alarms"},
		{"run for changes that no key raises", `run ok.yaml --set detect=true --set alerts={"jsonl":{"path":"a.jsonl"},"kinds":["change"]}`, 0, "warning: alerts.kinds: no key can raise change alarms"},
		{"check of a column", "check ok.yaml --set source.csv.values=[y]", 1, `"y"`},
		{"check without a look", "check ok.yaml --set source.csv.values=[y] --no-data", 0, ""},
		{"init", "init fine.csv", 0, ""},
		{"init of rejected records", "init in.csv", 1, "33.3 % of the records are rejected, such as in.csv:3"},
		{"init of nothing", "init no.csv", 1, "no.csv"},
		{"init over a file", "init in.csv -o ok.yaml", 2, "ok.yaml already exists"},
		{"mostly rejected", "run ok.yaml --set source.csv.decimal=','", 1, `2 of 3 records were rejected, more than half, most of them because of this: the text "1.5" where a number is due`},
		{"version", "version", 0, ""},
		{"input missing", "run ok.yaml --set source.csv.path=no.csv", 1, "no.csv"},
		{"column missing", "run ok.yaml --set source.csv.values=[y]", 1, `"y"`},
		{"disk full", "run ok.yaml --set sink.jsonl.path=/dev/full", 1, "/dev/full"},
		{"unknown command", "rum", 2, "unknown command"},
		{"compare has left", "compare --quick", 2, "go run ./cmd/hafvf-lab compare"},
		{"experiment has left", "experiment sgd --help", 2, "go run ./cmd/hafvf-lab experiment"},
		{"unknown flag", "run --no", 2, "unknown flag"},
		{"help of an unknown command", "help rum", 2, "unknown command"},
		{"help of a command", "help states forget", 0, ""},
		{"trials into no folder", "trials ok.yaml -o none/t.csv", 1, "its folder none does not exist"},
		{"too many arguments", "run a b", 2, "accepts"},
		{"no such config", "run no.yaml", 2, "no.yaml"},
		{"wrong key", "run bad.yaml", 2, `did you mean "family"?`},
		{"wrong override", "check ok.yaml --set top=2", 2, "--set top=2"},
		{"huge config", "check big.yaml", 2, "at most 1048576"},
		{"check of topics", "check topics.yaml", 0, ""}, // connects to nothing, and needs no secret
		{"topics over topics", "check topics.yaml --set sink.kafka.topic=in", 2, `"in" is also read, by source.kafka.topics`},
		{"a secret", "check topics.yaml --set source.kafka.sasl.password=s", 2, "--set source.kafka.sasl.password=…: "},
		{"a secret's variable", "run topics.yaml", 1, "sasl.password.env: the environment variable that it names is not set"},
		{"begin anew with a file", "run ok.yaml --begin-anew", 2, "--begin-anew is for a source of Kafka"},
		{"begin anew with the demo", "run --begin-anew", 2, "--begin-anew is for a source of Kafka"},
		{"begin anew on Flink", "run topics.yaml --begin-anew --set runner.name=flink --set runner.endpoint=a:1", 2, "--begin-anew is for a source of Kafka"},
		{"standard output twice", "check ok.yaml --set detect=true --set alerts.jsonl.path=-", 2, "alerts.jsonl.path: standard output is also written, by sink.jsonl.path"},
		{"config and records from standard input", "check -", 2, "config and records are both read from standard input"},
		{"two readers of standard input", "backtest ok.yaml --set detect=true --set source.csv.path=- --against stdin.yaml", 2, "both read standard input"},
		{"plot without a picture", "plot out.jsonl", 2, "-o"},
		{"sessions without a table", "sessions estimates.jsonl", 2, "sessions needs -o"},
		{"sessions in a spreadsheet", "sessions estimates.jsonl -o a.xlsx", 2, "a table is a .csv or a .parquet file"},
		{"sessions with an interval of 1", "sessions estimates.jsonl -o a.csv --interval 1", 2, "give a probability above 0 and below 1"},
		{"sessions of estimates", "sessions -o a.csv estimates.jsonl", 2, "estimates.jsonl contains estimates"},
		{"sessions of nothing", "sessions empty.jsonl -o a.csv", 1, "contains no records"},
		{"sessions over their records", "sessions estimates.jsonl -o linked.csv", 2, "linked.csv is an input"},
	}, stateExits...))
}

// stateExits are exits of commands about states.
var stateExits = []exit{
	{"states of a config without", "states ok.yaml", 1, "neither source.kafka.changelog nor state is set"},
	{"states before a run", "states ok.yaml --set state=none.bin", 1, "none.bin does not exist: no run has succeeded yet"},
	{"states of an empty key", "states ok.yaml --key=", 2, "--key is empty"},
	{"states of a config and a savepoint", "states ok.yaml --savepoint saved", 2, "saved: hafvf does not read savepoints of Flink: start a job from it with hafvf run CONFIG --savepoint PATH"},
	{"states of a savepoint", "states saved", 2, "saved: hafvf does not read savepoints"},
	{"states of a savepoint elsewhere", "states s3://states/savepoint-1", 2, "hafvf does not read savepoints"},
	{"check of a savepoint", "check ok.yaml --states file:saved/_metadata", 2, "hafvf does not read savepoints"},
	{"forget in a savepoint", "states forget saved --key k", 2, "is a savepoint, which only a job on Flink can change: set source.kafka.tombstones: forget"},
	{"forget without a key", "states forget ok.yaml", 2, `required flag(s) "key" not set`},
	{"forget an empty key", "states forget ok.yaml --key=", 2, "--key is empty"},
	{"forget nowhere", "states forget --key k", 2, "accepts 1 arg"},
	{"forget in a config without states", "states forget ok.yaml --key k", 1, "neither source.kafka.changelog nor state is set"},
	{"forget before a run", "states forget ok.yaml --key k --set state=none.bin", 1, "none.bin does not exist: no run has succeeded yet"},
	{"forget in no config", "states forget none.bin --key k", 2, "none.bin"},
	{"forget on Flink", "states forget topics.yaml --key k --set runner.name=flink --set runner.endpoint=a:1", 2, "a job on Flink keeps its states itself: set source.kafka.tombstones: forget, and write a record of the key with a null value"},
	{"migrate without states", "run ok.yaml --migrate", 2, "for a config that stores states"},
	{"migrate and begin anew", "run topics.yaml --migrate --begin-anew --set source.kafka.changelog=s", 2, "leave out --migrate"},
	{"migrate on Flink without a savepoint", "run topics.yaml --migrate --set runner.name=flink --set runner.endpoint=a:1", 2, "give --savepoint too"},
	{"migrate on Flink without cells", "run topics.yaml --migrate --savepoint s --set runner.name=flink --set runner.endpoint=a:1 --set runner.cells=0", 2, "runner.cells is 0"},
	{"check of no states", "check ok.yaml --states none.bin", 1, "none.bin is not a file of states"},
}

// An exit is the expected exit code and part of standard error for some arguments.
type exit struct {
	name, args string
	code       int
	stderr     string
}

// exits runs the program in a folder, once for each exit, with its arguments after the command.
func exits(t *testing.T, dir, stdin, command string, cases []exit) {
	t.Helper()
	for _, e := range cases {
		t.Run(e.name, func(t *testing.T) {
			code, _, stderr := program.Run(t, dir, stdin, strings.Fields(command+" "+e.args)...)
			if code != e.code || !strings.Contains(stderr, e.stderr) {
				t.Errorf("hafvf %s %s: exit %d, want %d; standard error: %s", command, e.args, code, e.code, stderr)
			}
		})
	}
}

// TestNoSecretIsShown checks that no output repeats a text given as the place of a secret, since it may be the secret
// itself.
func TestNoSecretIsShown(t *testing.T) {
	t.Parallel()
	const secret = "hunter2hunter2"
	config := func(login, sink string) string {
		return "model: {family: normal}\nsource: {kafka: {brokers: ['127.0.0.1:1'], topics: [in], group: g" + login + "}}\nsink: {kafka: {topic: out" + sink + "}}\n"
	}
	sasl := func(password string) string {
		return ", sasl: {mechanism: plain, username: u, password: " + password + "}"
	}
	file, env := sasl("{file: "+secret+"}"), sasl("{env: "+secret+"}")
	dir := e2e.Folder(t, map[string]string{
		"file.yaml": config(file, ""), "env.yaml": config(env, ""),
		"sink.yaml":    config("", ", brokers: ['127.0.0.1:1']"+file),
		"key.yaml":     config(", tls: {cert: ok.pem, key: "+secret+"}", ""),
		"both.yaml":    config(sasl("{file: "+secret+", env: "+secret+"}"), ""),
		"list.yaml":    config(sasl("{file: ["+secret+"]}"), ""),
		"mapping.yaml": config(sasl("{env: {"+secret+": 1}}"), ""),
		"text.yaml":    config(sasl(secret), ""),
		"twice.yaml":   config(sasl("{file: "+secret+", file: "+secret+"}"), ""),
		"nested.yaml":  config(", sasl: {password: {file: "+secret+"}}", ""),
		"cut.yaml":     config(sasl("{file: \""+secret), ""),
		"ok.pem":       "", "topics.yaml": config("", ""),
	})
	set := "source.kafka.sasl={mechanism:plain,username:u,password:{file:" + secret + "}}"
	for _, args := range []string{
		"run file.yaml", "run env.yaml", "run sink.yaml", "run key.yaml", "run both.yaml", "run list.yaml", "run mapping.yaml", "run text.yaml", "run twice.yaml", "run nested.yaml", "run cut.yaml",
		"check file.yaml", "check env.yaml", "check sink.yaml", "check key.yaml", "run file.yaml --explain", "run sink.yaml --explain",
		"run file.yaml --begin-anew", "run file.yaml --log-level debug",
		"check file.yaml --set source.kafka.start=" + "never", "check file.yaml --set source.kafka.sasl.password.env=P",
		"check topics.yaml --set " + set, "check topics.yaml --set source.kafka.sals.password.file=" + secret, "check topics.yaml --set source.kafka.pasword=" + secret,
		"check topics.yaml --set source.kafka.sasl.password.file.x=" + secret, "check file.yaml --set source.kafka.sasl.password.file.x=1",
	} {
		code, stdout, stderr := program.Run(t, dir, "", strings.Fields(args)...)
		if strings.Contains(stdout+stderr, secret) {
			t.Errorf("hafvf %s: exit %d\n%s%s", args, code, stdout, stderr)
		}
		if strings.HasPrefix(args, "run") && !strings.Contains(args, "--explain") && (code == 0 || stderr == "") {
			t.Errorf("hafvf %s: exit %d: %s", args, code, stderr)
		}
	}
}

func TestDemo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	code, _, stderr := program.Run(t, dir, "", "run")
	// The jump that the authors of the data labelled, found at its start.
	if code != 0 || !strings.Contains(stderr, "rds_cpu_e47b3b           2014-04-13T06:52:00Z") {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	for _, name := range []string{demoResults, demoAlerts, demoPicture} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// With standard input as the source, output files grow as records arrive.
func TestFilesGrowWithStandardInput(t *testing.T) {
	t.Parallel()
	dir := e2e.Folder(t, map[string]string{
		"c.yaml": "model: {family: normal, prior: {mu: 0, kappa: 1, alpha: 1, beta: 1}}\nsilence: {after: 10m}\nsource: {csv: {path: '-'}}\n" +
			"sink: {csv: {path: out.csv}}\nalerts: {jsonl: {path: alerts.jsonl}}\ndead_letter: {jsonl: {path: rejected.jsonl}}\n",
		"out.csv": "of an earlier run\n",
	})
	d := program.Pipe(t, dir, "run", "c.yaml")
	defer d.Kill()
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, step := range []struct {
		line, file, want string
	}{
		{"key,time,x\na,2026-01-01T00:00:00Z,1.5\n", "out.csv", ",stdin:2,"},
		{"a,2026-01-01T00:00:01Z,oops\n", "rejected.jsonl", "stdin:3"},
		{"a,2026-01-01T01:00:00Z,2\n", "alerts.jsonl", `"kind":"recovered"`},
	} {
		d.Say(t, step.line)
		d.Eventually(t, step.file+" has "+step.want, func() bool { return strings.Contains(read(step.file), step.want) })
	}
	d.Say(t, "a,2026-01-01T01:00:01Z,2\n")
	d.CloseInput(t)
	d.Ends(t, 0)
	if got := read("out.csv"); strings.Count(got, "\n") != 4 || strings.Contains(got, "earlier") {
		t.Errorf("%s", got)
	}
}

// The program ends without a message if the reader of standard output closes it.
func TestReaderGone(t *testing.T) {
	var lines strings.Builder
	lines.WriteString("key,time,x\n")
	for i := range 100_000 {
		fmt.Fprintf(&lines, "a,%d,%d\n", 1767225600+i, i%7)
	}
	dir := e2e.Folder(t, map[string]string{"in.csv": lines.String(), "c.yaml": goodYAML})
	for _, args := range [][]string{{"run", "c.yaml"}, {"run", "c.yaml", "--set", "sink={csv: {path: '-'}}"}} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(program.Path, args...)
		cmd.Env, cmd.Dir = append(os.Environ(), program.Env...), dir
		var stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = w, &stderr
		expect.OK(t, cmd.Start())
		w.Close()
		expect.Get(r.Read(make([]byte, 100)))(t)
		r.Close()
		cmd.Wait() // its error only repeats the exit code
		if code := cmd.ProcessState.ExitCode(); code != 141 || stderr.Len() > 0 {
			t.Errorf("%v: exit %d: %s", args, code, stderr.String())
		}
	}
}

// A stop acts as the end of standard input: open intervals get their records, and no silence is reported.
func TestStopEndsIntervals(t *testing.T) {
	t.Parallel()
	dir := e2e.Folder(t, map[string]string{"c.yaml": `model: {family: poisson}
aggregate: {every: 1h, value: count}
silence: {after: 1s}
source: {csv: {path: "-"}}
sink: {csv: {path: out.csv}}
alerts: {jsonl: {path: alerts.jsonl}}
dead_letter: {jsonl: {path: rejected.jsonl}}
`})
	d := program.Pipe(t, dir, "run", "c.yaml")
	d.Say(t, "key,time\na,2026-01-01T00:00:00Z\na,2026-01-01T00:00:01Z\nb,2026-01-01T00:00:10Z\nb,oops\n")
	read := func(name string) string {
		text, _ := os.ReadFile(filepath.Join(dir, name))
		return string(text)
	}
	d.Eventually(t, "the last line is read", func() bool { return strings.Contains(read("rejected.jsonl"), "oops") })
	d.Stop(t)
	out := read("out.csv")
	for _, want := range []string{"a,2026-01-01T00:00:00Z,a/2026-01-01T00:00:00Z,1,2,2,", "b,2026-01-01T00:00:00Z,b/2026-01-01T00:00:00Z,1,1,1,"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in %s", want, out)
		}
	}
	if alerts := read("alerts.jsonl"); alerts != "" {
		t.Errorf("alerts: %s", alerts)
	}
}
