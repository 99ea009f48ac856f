package connectors

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"hafvf/internal/account"
	"hafvf/internal/dofn"
	"hafvf/internal/tabular"
	"hafvf/internal/testing/expect"
	"hafvf/pipeline/direct"
)

func init() {
	register.Function2x0((&lineFn{}).ProcessElement)
	dofn.Register(func(f *lineFn) any { return f.ProcessElement })
	register.Function1x1((&sinkFn{}).ProcessElement)
	dofn.Register(func(f *sinkFn) any { return f.ProcessElement })
}

func TestMain(m *testing.M) {
	flag.Parse()
	slog.SetDefault(slog.New(slog.DiscardHandler)) // the run returns the errors as well
	beam.Init()
	os.Exit(m.Run())
}

func run(t *testing.T, books *account.Run, p *beam.Pipeline) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	_, err := direct.Execute(books.In(ctx), p)
	if ctx.Err() != nil {
		t.Fatal("the pipeline does not end")
	}
	return err
}

// A probe collects reports of the DoFns of a test, which run in this process.
type probe struct {
	books       *account.Run
	fail        int64 // line number at which sinkFn fails; 0 for none
	stopAt      int64
	delay       time.Duration
	seen        sync.Map // line numbers
	emitted     atomic.Int64
	received    atomic.Int64
	maxInFlight atomic.Int64 // maximum number of records in flight
}

var probes sync.Map

func newProbe(t *testing.T, held bool) *probe {
	p := &probe{}
	if held {
		p.books = account.Open(account.StateKeeper{})
		t.Cleanup(p.books.Close)
	}
	probes.Store(t.Name(), p)
	t.Cleanup(func() { probes.Delete(t.Name()) })
	return p
}

func probeOf(name string) *probe {
	p, _ := probes.Load(name)
	return p.(*probe)
}

// lineFn is fused with the source and counts its records.
type lineFn struct{ Test string }

func (fn *lineFn) ProcessElement(b Batch, emit func([]byte)) {
	p := probeOf(fn.Test)
	for _, r := range b.Records {
		n := p.emitted.Add(1)
		if in := n - p.received.Load(); in > p.maxInFlight.Load() {
			p.maxInFlight.Store(in)
		}
		if n == p.stopAt {
			p.books.Stop()
		}
		emit([]byte(fmt.Sprint(r.Position)))
	}
}

// sinkFn receives the records in another stage, slowly.
type sinkFn struct{ Test string }

func (fn *sinkFn) ProcessElement(line []byte) error {
	p := probeOf(fn.Test)
	var position int64
	fmt.Sscan(string(line), &position)
	if _, duplicate := p.seen.LoadOrStore(position, true); duplicate {
		return fmt.Errorf("line %d came twice", position)
	}
	if p.fail > 0 && position >= p.fail {
		return fmt.Errorf("cannot take line %d", position)
	}
	if p.delay > 0 && position%100 == 0 {
		time.Sleep(p.delay)
	}
	p.received.Add(1)
	return nil
}

func csvOf(t *testing.T, rows int) Source {
	t.Helper()
	src := ktx
	src.Path = filepath.Join(t.TempDir(), "in.csv")
	var b strings.Builder
	b.WriteString("key,time,x\n")
	for i := range rows {
		fmt.Fprintf(&b, "k%d,t,%d\n", i%7, i)
	}
	write(t, src.Path, b.String())
	return src
}

func write(t *testing.T, path, text string) {
	t.Helper()
	expect.OK(t, os.MkdirAll(filepath.Dir(path), 0o777))
	expect.OK(t, os.WriteFile(path, []byte(text), 0o666))
}

func pipelineOf(t *testing.T, src Source, bundle int) *beam.Pipeline {
	p, s := beam.NewPipelineWithRoot()
	src.BundleRecords = bundle
	col := Read(s, src)
	lines := beam.ParDo(s, &lineFn{t.Name()}, col)
	beam.ParDo0(s, &sinkFn{Test: t.Name()}, beam.Reshuffle(s, lines))
	return p
}

func TestReadArrivesOnce(t *testing.T) {
	for _, gate := range []bool{false, true} {
		t.Run(fmt.Sprint("gate=", gate), func(t *testing.T) {
			const rows, bundle = 10_500, 1000
			p := newProbe(t, gate)
			p.delay = time.Millisecond
			expect.OK(t, run(t, p.books, pipelineOf(t, csvOf(t, rows), bundle)))
			for line := int64(2); line < rows+2; line++ {
				if _, ok := p.seen.Load(line); !ok {
					t.Fatalf("line %d is lost", line)
				}
			}
			expect.Same(t, int64(rows), p.received.Load(), "records")
			if n := p.maxInFlight.Load(); gate && n > 2*bundle {
				t.Errorf("%d records in flight, more than two bundles of %d", n, bundle)
			} else {
				t.Logf("at most %d in flight", n)
			}
		})
	}
}

func TestReadStop(t *testing.T) {
	p := newProbe(t, true)
	p.stopAt = 2345
	expect.OK(t, run(t, p.books, pipelineOf(t, csvOf(t, 100_000), 1000)))
	// The batch during which the run was stopped is the last one.
	if n := p.received.Load(); n < p.stopAt || n >= p.stopAt+aheadRecords || p.emitted.Load() != n {
		t.Errorf("%d records emitted, %d taken, stopped at %d", p.emitted.Load(), n, p.stopAt)
	}
}

// A failure downstream ends the run while the source waits.
func TestReadDownstreamFails(t *testing.T) {
	p := newProbe(t, true)
	p.fail = 1500
	err := run(t, p.books, pipelineOf(t, csvOf(t, 100_000), 1000))
	expect.Error(t, err, "cannot take line")
}

func TestReadError(t *testing.T) {
	newProbe(t, true)
	src := csvOf(t, 10)
	src.Values = []string{"y"}
	expect.Error(t, run(t, nil, pipelineOf(t, src, 1000)), `no column "y"`)
}

// Records of an open pipe are passed on, and Stop ends the wait for more.
func TestReadStandardInput(t *testing.T) {
	r, w, err := os.Pipe()
	expect.OK(t, err)
	defer w.Close()
	old := os.Stdin
	os.Stdin = r
	defer func() { os.Stdin = old }()
	p := newProbe(t, true)
	src := ktx
	src.Path = stdio
	fmt.Fprint(w, "key,time,x\na,t,1\n")
	done := make(chan error)
	go func() { done <- run(t, p.books, pipelineOf(t, src, 1000)) }()
	for n := int64(1); n <= 3; n++ {
		expect.Soon(t, fmt.Sprint("record ", n), func() bool { return p.received.Load() >= n })
		fmt.Fprint(w, "a,t,1\n")
	}
	p.books.Stop()
	expect.OK(t, <-done)
}

// After a restart the source is opened again and continues at the same record.
func TestInputSkips(t *testing.T) {
	in := newInput(csvOf(t, 100), 42, nil)
	defer in.close()
	records, err := in.next(t.Context(), nil, time.Minute)
	if err != nil || len(in.pop(1)) != 1 || records[0].Position != 44 || in.nextIndex != 43 {
		t.Errorf("%+v, then at %d, %v", records, in.nextIndex, err)
	}
}

// A run that resumes in the middle of a file knows the current header. It counts each skipped line once, within its
// process and after the records of the previous run.
func TestReadResumesInTable(t *testing.T) {
	const tables = "a note\n# one\nkey,time,x\na,1,1\n\n# two\nx,key,time\n2,a,2\n# by hand\n3,a,3\n"
	for _, name := range []string{"f.csv", "f.csv.gz"} {
		src := ktx
		src.Path, src.Skip, src.Comment = filepath.Join(t.TempDir(), name), 1, "#"
		write := func(text string) {
			f := expect.Get(os.Create(src.Path))(t)
			z := expect.Get(compressor(f, src.Path))(t)
			expect.Get(z.Write([]byte(text)))(t)
			expect.OK(t, z.Close())
			expect.OK(t, f.Close())
		}
		check := func(in *input, lines int64, want ...string) {
			t.Helper()
			defer in.close()
			var got []string
			for {
				records, err := in.next(t.Context(), nil, time.Minute)
				if err == io.EOF {
					break
				}
				expect.OK(t, err)
				for _, r := range in.pop(len(records)) {
					got = append(got, fmt.Sprint(r.Position, r.Fields))
				}
			}
			expect.Same(t, want, got)
			expect.Same(t, lines, in.skipped.n.Load())
		}
		write(tables)
		check(newInput(src, 2, nil), 1, "10 [a 3 3]")
		marks := expect.Get(ParseMarks(nil, slog.Default()))(t)
		check(newInput(src, 0, marks), 5, "4 [a 1 1]", "8 [a 2 2]", "10 [a 3 3]")
		write(tables + "4,a,4\n\nkey,time,x\na,5,5\n")
		marks = expect.Get(ParseMarks(expect.Get(marks.AppendBinary(nil))(t), slog.Default()))(t)
		check(newInput(src, 0, marks), 1, "11 [a 4 4]", "14 [a 5 5]")
	}
}

// A file of any format that grows is read from the end of the previous run on. A replaced file is read from its start. A
// last line that was incomplete is read again when it is complete.
func TestFileMarks(t *testing.T) {
	rows := func(start, end int) (text string) {
		for i := start; i < end; i++ {
			text += fmt.Sprintf("{\"key\":\"k\",\"time\":\"t\",\"x\":%d}\n", i)
		}
		return text
	}
	cut := func(text string, n int) string { return text[:len(text)-n] }
	const replaced = "file was replaced since the previous run: reading it from the start"
	for _, c := range []struct {
		name, first, second string
		start, end          int // numbers of the records that the second run reads
		skipped             int64
		log                 string
	}{
		{"grows.jsonl", rows(0, 10), rows(0, 30), 10, 30, 10, ""},
		{"grows.csv", rows(0, 10), rows(0, 30), 10, 30, 10, ""},
		{"grows.csv.gz", rows(0, 28), rows(0, 30), 28, 30, 28, ""},
		{"grows.parquet", rows(0, 28), rows(0, 30), 28, 30, 28, ""},
		{"same.parquet", rows(0, 30), rows(0, 30), 0, 0, 30, ""},
		{"without a last line end.jsonl", cut(rows(0, 10), 1), rows(0, 30), 10, 30, 10, ""},
		{"half a line.jsonl", cut(rows(0, 30), 8), rows(0, 30), 29, 30, 29, "last record has changed since the previous run: reading it again"},
		{"replaced.jsonl", rows(0, 30), rows(100, 130), 100, 130, 0, replaced},
		{"shorter.jsonl", rows(0, 30), rows(100, 103), 100, 103, 0, replaced},
	} {
		var logged strings.Builder
		log := slog.New(slog.NewTextHandler(&logged, nil))
		src, marks := ktx, expect.Get(ParseMarks(nil, log))(t)
		src.Path = filepath.Join(t.TempDir(), c.name)
		src.Format = strings.Split(c.name, ".")[1]
		read := func(text string) (numbers []string) {
			if src.Format != JSONLines { // a Writer takes rows
				text = strings.NewReplacer(`{"key":`, "", `,"time":`, "\t", `,"x":`, "\t", "}", "").Replace(text)
			}
			columns := []tabular.Column{{Path: "key"}, {Path: "time"}, {Path: "x", Kind: tabular.Number}}
			w := expect.Get(Create(Sink{Format: src.Format, Path: src.Path, Columns: columns}))(t)
			expect.OK(t, w.Write([]byte(text)))
			expect.OK(t, w.Commit())
			rd := expect.Get(open(src, marks, &skippedLines{}))(t)
			defer rd.Close()
			rec, err := rd.Next()
			for ; err == nil; rec, err = rd.Next() {
				numbers = append(numbers, strings.Trim(string(rec.Raw), `{"keytimx:,}`))
			}
			expect.Error(t, err, io.EOF.Error(), c.name)
			return numbers
		}
		read(c.first)
		marks = expect.Get(ParseMarks(expect.Get(marks.AppendBinary(nil))(t), log))(t)
		var want []string
		for i := c.start; i < c.end; i++ {
			want = append(want, fmt.Sprint(i))
		}
		expect.Same(t, want, read(c.second), c.name)
		expect.Same(t, c.skipped, marks.Skipped(), c.name)
		expect.Same(t, c.log != "", logged.Len() > 0 && strings.Contains(logged.String(), c.log), c.name, logged.String())
	}
}

// A pipe is opened once, so its first records are not lost.
func TestOpenPipe(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no paths of pipes")
	}
	r, w, err := os.Pipe()
	expect.OK(t, err)
	defer r.Close()
	go func() {
		defer w.Close()
		for i := range 1000 {
			fmt.Fprintf(w, "{\"x\":%d}\n", i)
		}
	}()
	src := Source{Format: JSONLines, Path: fmt.Sprintf("/dev/fd/%d", r.Fd())}
	expect.OK(t, Check(src))
	rd, err := Open(src)
	expect.OK(t, err)
	defer rd.Close()
	for i := range 1000 {
		rec, err := rd.Next()
		if want := fmt.Sprintf("{\"x\":%d}", i); err != nil || strings.TrimSpace(string(rec.Raw)) != want {
			t.Fatalf("%q, %v, want %s", rec.Raw, err, want)
		}
	}
}
